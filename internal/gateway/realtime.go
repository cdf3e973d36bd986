package gateway

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/answers"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/upstreams"
)

// offered are the subprotocols that are passed between client and upstream. Others are hints about
// accounts and keys, which stop here.
var offered = []string{"realtime", "openai-beta.realtime-v1"}

const keyProtocol = "openai-insecure-api-key."

// subprotocols lists those that a client offers.
func subprotocols(h http.Header) []string {
	var list []string
	for _, line := range h.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(p))
		}
	}
	return list
}

// offeredKey is the key that a browser, which cannot set headers, sends as a subprotocol.
func offeredKey(h http.Header) string {
	for _, p := range subprotocols(h) {
		if key, ok := strings.CutPrefix(p, keyProtocol); ok {
			return key
		}
	}
	return ""
}

// checkUpgrade refuses a call of the realtime route that is no websocket handshake.
func (c *call) checkUpgrade() *refusal {
	if c.r.ProtoMajor == 1 && strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		return nil
	}
	return &refusal{Status: http.StatusUpgradeRequired, Code: admission.CodeInvalid, Message: "This route is a websocket: ask for it with HTTP/1.1 and Upgrade: websocket."}
}

// serveRealtime passes a session on in both directions, while its lease lives.
func (c *call) serveRealtime() {
	upstream, err := c.dialRealtime()
	if err != nil {
		c.listFailed(err)
		return
	}
	protocols := []string{}
	if p := upstream.Subprotocol(); p != "" {
		protocols = append(protocols, p)
	}
	// The key is sent on purpose, not by a browser that was lured here, so the origin
	// does not matter.
	s := newSession(c, upstream)
	client, err := websocket.Accept(&c.w, c.r, &websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true, OnPingReceived: s.pinged})
	if err != nil { // Accept has answered the client
		_ = upstream.CloseNow()
		c.failure = err
		c.over(telemetry.Failed, "handshake", noUsage)
		return
	}
	c.w.status = http.StatusSwitchingProtocols
	limit := c.world.Snapshot.Config().MaxBody
	client.SetReadLimit(limit)
	upstream.SetReadLimit(max(limit, maxAnswer))
	draining := c.g.sockets.enter()
	defer c.g.sockets.leave()
	s.client = client
	s.run(draining)
}

// dialRealtime connects to an upstream, trying others if the first does not work.
func (c *call) dialRealtime() (*websocket.Conn, error) {
	for {
		conn, resp, err := c.dialOnce()
		if resp != nil && resp.StatusCode == http.StatusSwitchingProtocols && err != nil {
			resp = nil // no answer came
		}
		var said upstreams.Outcome
		if resp != nil && err != nil {
			resp.Body = answers.NewBody(resp.Body, c.try.up.secrets)
		}
		if resp != nil {
			said = c.judge(resp, nil)
		} else {
			said = c.judge(nil, err)
		}
		c.tell(said)
		switch {
		case err == nil:
			return conn, nil
		case said != upstreams.Served && said != upstreams.Abandoned && c.tryAgain(said, nil, err):
			continue
		case resp == nil || resp.StatusCode/100 == 2:
			return nil, err
		}
		if err := c.withheld(resp.StatusCode); err != nil {
			return nil, err
		}
		body, _ := io.ReadAll(resp.Body) // in memory, and at most a kilobyte
		return nil, &upstreamSaid{resp.StatusCode, resp.Header.Get("Content-Type"), body}
	}
}

// dialOnce connects to the upstream of the present try.
func (c *call) dialOnce() (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.world.Snapshot.Config().Timeouts.UpstreamHeader)
	defer cancel()
	var protocols []string
	for _, p := range subprotocols(c.r.Header) {
		if slices.Contains(offered, p) {
			protocols = append(protocols, p)
		}
	}
	query := maps.Clone(c.query)
	query.Set("model", c.realModel())
	return websocket.Dial(ctx, c.try.up.address.URL(c.at.path, c.realModel(), query).String(), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport:     c.g.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader:   c.upstreamHeader(c.r.Header),
		Subprotocols: protocols,
	})
}
