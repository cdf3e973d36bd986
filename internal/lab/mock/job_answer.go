package mock

import (
	"net/http"
	"strconv"
	"time"
)

// head writes the headers of every answer to a model call: its id, the time it took so far, and
// the usage of the limits.
func (j *job) head() *header {
	h := &header{j.w.Header(), make([]string, 0, 12)}
	h.set(j.idHeader(), string(j.appendID(make([]byte, 0, 32), "req_")))
	h.set("Openai-Processing-Ms", strconv.FormatInt(time.Since(j.start).Milliseconds(), 10))
	h.h["Openai-Version"] = apiVersion
	if j.verdict.levels == (levels{}) { // not judged, because the request is bad or there are no limits
		j.verdict.levels = j.s.books.levels()
	}
	j.verdict.levels.set(h)
	return h
}

// idHeader is the header with an answer's id.
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
	_, _ = j.w.Write(j.out) // an error means that the client has left
}

func newSSE(j *job) sse {
	s := sse{
		buf: j.out[:0], w: j.w, rc: http.NewResponseController(j.w),
		eol: "\n", comments: j.plan.comments, ids: j.plan.idSSE, times: j.plan.timeSSE,
	}
	if j.plan.crlf {
		s.eol = "\r\n"
	}
	return s
}
