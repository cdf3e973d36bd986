package readiness

import "net/http"

// Header is that of an answer of /readyz which tells whether the gateway has the store of its limits, whatever the
// status: Answers or Lost.
const Header = "X-Llmgov-Store"

// The values of Header.
const (
	Answers = "answers"
	Lost    = "lost"
)

// Tell sets the header.
func Tell(h http.Header, up bool) {
	h.Set(Header, Lost)
	if up {
		h.Set(Header, Answers)
	}
}
