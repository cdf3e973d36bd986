package answers

import (
	"net/http"
	"slices"
	"strings"
)

const (
	// mostHeader bounds the length of a header that is passed on, and mostHeaders that of all.
	mostHeader  = 1 << 10
	mostHeaders = 8 << 10
)

// passed are the headers that reach the caller under their own name: those that describe the body,
// say when to come back, or help to find the call at the provider. All others stay here: they
// concern the operator's account (cookies, organisations), or tell browsers and SDKs how to behave
// towards the gateway (CORS, Clear-Site-Data, Strict-Transport-Security, x-should-retry, unless it is false).
var passed = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Disposition", "Content-Language", "Content-Range",
	"Accept-Ranges", "Cache-Control", "Date", "Etag", "Expires", "Last-Modified", "Vary",
	"Retry-After", "Retry-After-Ms",
	"Request-Id", "Apim-Request-Id", "X-Ms-Region", "X-Ms-Request-Id", "Cf-Ray", "X-Generation-Id",
	"Openai-Processing-Ms", "Openai-Version", "Openai-Model", "X-Codex-Turn-State",
}

// Headers adds the headers of an answer that the caller gets to those that it gets anyway, which are kept. The upstream's
// own limits, whose headers begin with one of rates or with nothing before Ratelimit, and its request id are renamed, to
// tell them from the gateway's. A header that is too long, or that contains a secret, is left out.
func Headers(to, answer http.Header, hide Secrets, rates []string) {
	pass := passing{to: to, hide: hide, left: mostHeaders}
	for _, name := range passed {
		pass.on(name, answer[name])
	}
	pass.on("X-Upstream-Request-Id", answer["X-Request-Id"])
	if answer.Get("X-Should-Retry") == "false" { // the upstream would fail again, whatever the gateway does
		pass.on("X-Should-Retry", answer["X-Should-Retry"][:1])
	}
	for _, limit := range LimitsIn(answer, rates) {
		pass.on(limit.As, answer[limit.Name])
	}
}

// passing is the state of passing headers on.
type passing struct {
	to   http.Header
	hide Secrets
	left int // bytes for further ones
}

// on passes a header on if it is there, and neither too long nor secret.
func (p *passing) on(name string, values []string) {
	if len(values) == 0 {
		return
	}
	size := len(name)
	for _, value := range values {
		size += len(value)
		if p.hide.In(value) {
			return
		}
	}
	if size > mostHeader || size > p.left {
		return
	}
	p.left -= size
	if _, said := p.to[name]; !said {
		p.to[name] = values
	}
}

// Limit is a header about the upstream's own limits, and the name under which it is passed on.
type Limit struct{ Name, As string }

// LimitsIn lists such headers in the order of their names, so that the bound always cuts the same. Their names
// begin with one of rates or with nothing before Ratelimit.
func LimitsIn(h http.Header, rates []string) []Limit {
	var list []Limit
	for name, values := range h {
		prefix, rest, ok := strings.Cut(name, "Ratelimit")
		known := prefix == "" || slices.Contains(rates, prefix) // without a prefix they are the IETF's
		if ok && known && (rest == "" || rest[0] == '-') && len(values) > 0 {
			list = append(list, Limit{name, "X-Upstream-Ratelimit" + rest})
		}
	}
	slices.SortFunc(list, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return list
}
