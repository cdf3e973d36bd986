package mock

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// maxBody is the largest request body read.
const maxBody = 64 << 20

var errBodyTooLarge = errors.New("mock: request body too large")

// job is one call to the model, from its first byte to its last.
type job struct {
	s     *Server
	w     http.ResponseWriter
	ctx   context.Context
	start time.Time
	seq   uint64

	call    call
	plan    plan
	ticket  ticket
	verdict verdict

	body bytes.Buffer
	out  []byte // the answer that is being written
	sse  sse

	shapes shapes
}

var jobs = sync.Pool{New: func() any { return new(job) }}

func (j *job) appendID(b []byte, prefix string) []byte { return j.s.appendID(b, prefix, j.seq) }

// end closes the books on j. It comes before the last byte is written, so that a client that has
// read an answer finds it in Stats.
func (j *job) end(o outcome) {
	if !j.s.books.end(&j.ticket, o) || j.s.cfg.Logf == nil {
		return
	}
	j.s.cfg.Logf("%s %s: model=%q prompt=%d output=%d stream=%t after %s", j.call.route, o,
		j.call.model.Str, j.ticket.prompt, j.ticket.produced, j.call.streams(), time.Since(j.start).Round(time.Millisecond))
}

// release ends j and gives its buffers back.
func (j *job) release() {
	j.end(cancelled)
	j.plan.pace.stop()
	const keep = 1 << 20 // one giant prompt must not hold its memory for ever
	if j.body.Cap() > keep || cap(j.out) > keep {
		return
	}
	j.body.Reset()
	*j = job{body: j.body, out: j.out[:0], shapes: j.shapes.reuse()}
	jobs.Put(j)
}
