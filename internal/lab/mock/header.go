package mock

import "net/http"

// Values that never change are shared by all answers. An append to one makes a copy,
// because none has room to grow.
var (
	typeJSON   = []string{"application/json"}
	typeSSE    = []string{"text/event-stream; charset=utf-8"}
	noCache    = []string{"no-cache"}
	noBuffer   = []string{"no"}
	apiVersion = []string{"2020-10-01"}
)

// header sets response headers by their canonical names. The values of one answer share one
// slice, so that ten headers cost one allocation; http.Header.Set would make ten.
type header struct {
	h      http.Header
	values []string
}

func (h *header) set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.h[name] = h.values[n-1 : n : n]
}
