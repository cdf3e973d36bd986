package tenants

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Header is a header that upstreams get with each call of a pool. Its value may contain the placeholders {tenant},
// {tier}, {priority} and {request_id}, which stand for those of the call.
type Header struct{ Name, Value string }

// The names and values of such headers. All others than those that begin with x- say something to HTTP, or are keys.
var (
	headerName  = regexp.MustCompile(`^[xX]-[A-Za-z0-9-]+$`)
	headerValue = regexp.MustCompile(`^(\{(tenant|tier|priority|request_id)\}|[!-z|~ ]){1,256}$`)
)

// keptHeaders are llmgov's own.
var keptHeaders = []string{"X-Api-Key", "X-Request-Id"}

func headersKind() schema {
	return strictyaml.MapOf(headerName.String(), strictyaml.TextKind(`^.+$`), 0)()
}

// readHeaders reads the headers for upstreams.
func readHeaders(v value, p *Pool) {
	list, _ := v.Pairs()
	for _, e := range list {
		text, ok := e.Scalar()
		if !ok {
			continue
		}
		h := Header{textproto.CanonicalMIMEHeaderKey(e.Key), text}
		if complaint := h.complain(); complaint != "" {
			e.Problem("%s", complaint)
			continue
		}
		if slices.ContainsFunc(p.Headers, func(o Header) bool { return o.Name == h.Name }) {
			e.Problem("%s is there twice, for capitals make no difference; remove one", strictyaml.Show(e.Key))
			continue
		}
		p.Headers = append(p.Headers, h)
	}
}

// complain is the mistake in a header.
func (h Header) complain() string {
	switch {
	case !headerName.MatchString(h.Name):
		return strictyaml.Show(h.Name) + " does not begin with x-; other headers are for HTTP or carry keys"
	case slices.Contains(keptHeaders, textproto.CanonicalMIMEHeaderKey(h.Name)):
		return strictyaml.Show(h.Name) + " is set by llmgov itself; choose another name"
	case !headerValue.MatchString(h.Value):
		return strictyaml.Show(h.Value) + " is no value of a header; write ASCII text, in which {tenant}, {tier}, {priority} and {request_id} stand for those of the call"
	}
	return ""
}

func sortHeaders(list []Header) {
	slices.SortFunc(list, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
}
