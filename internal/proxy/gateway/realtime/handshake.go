package realtime

import (
	"net/http"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// passed are the subprotocols that are passed between client and upstream. Others are hints about
// accounts and keys, which stop at the gateway.
var passed = []string{"realtime", "openai-beta.realtime-v1"}

const keyProtocol = "openai-insecure-api-key."

// offered lists the subprotocols that a client offers.
func offered(h http.Header) []string {
	var list []string
	for _, line := range h.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(p))
		}
	}
	return list
}

// Protocols are the subprotocols to offer to the upstream.
func Protocols(h http.Header) []string {
	var list []string
	for _, p := range offered(h) {
		if slices.Contains(passed, p) {
			list = append(list, p)
		}
	}
	return list
}

// Key is the key that a browser, which cannot set headers, sends as a subprotocol.
func Key(h http.Header) string {
	for _, p := range offered(h) {
		if key, ok := strings.CutPrefix(p, keyProtocol); ok {
			return key
		}
	}
	return ""
}

// Asked reports whether a request asks for a websocket.
func Asked(h http.Header) bool { return strings.EqualFold(h.Get("Upgrade"), "websocket") }

// CheckUpgrade refuses a request that is no websocket handshake.
func CheckUpgrade(r *http.Request) *ask.Refusal {
	if r.ProtoMajor == 1 && Asked(r.Header) {
		return nil
	}
	return &ask.Refusal{
		Status: http.StatusUpgradeRequired, Code: ask.CodeInvalid,
		Message: "This route is a websocket: ask for it with HTTP/1.1 and Upgrade: websocket.",
	}
}
