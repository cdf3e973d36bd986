package mock

import (
	"net/http"
	"strconv"
	"time"
)

// Values that never change are shared by all answers. Whoever appends to one gets a copy,
// since none has room to grow.
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

// head writes what every answer to a model call has: its id, how long it took until here, and
// how full the limits are.
func (j *job) head() *header {
	h := &header{j.w.Header(), make([]string, 0, 12)}
	h.set(j.idHeader(), string(j.appendID(make([]byte, 0, 32), "req_")))
	h.set("Openai-Processing-Ms", strconv.FormatInt(time.Since(j.start).Milliseconds(), 10))
	h.h["Openai-Version"] = apiVersion
	if j.verdict.levels == (levels{}) { // not judged: a bad request, or no limits at all
		j.verdict.levels = j.s.books.levels()
	}
	j.verdict.levels.set(h)
	return h
}

// idHeader is where an answer's id stands.
func (j *job) idHeader() string {
	if j.call.route.isAnthropic() {
		return "Request-Id"
	}
	return "X-Request-Id"
}

// writeError answers with e.
func (j *job) writeError(e *apiError) {
	if j.call.route.isAnthropic() {
		j.out = e.appendAnthropic(j.out[:0])
	} else {
		j.out = e.append(j.out[:0])
	}
	h := j.head()
	e.set(h)
	j.writeBody(h, e.status)
}

// writeBody answers with the JSON in j.out.
func (j *job) writeBody(h *header, status int) {
	h.h["Content-Type"] = typeJSON
	h.set("Content-Length", strconv.Itoa(len(j.out)))
	j.w.WriteHeader(status)
	_, _ = j.w.Write(j.out) // who is not there any more cannot be told
}
