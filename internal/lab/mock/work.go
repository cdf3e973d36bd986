package mock

import (
	"net/http"
	"strconv"
)

// answer produces all tokens and then sends them as one object. Tokens are produced when they are
// due, whether or not the client sees them, so a call given up half way has produced half.
func (j *job) answer(sh shape) {
	tokens, f := j.plan.upTo()
	if !j.plan.pace.wait(j.ctx, 0) || !j.produce(tokens) {
		return
	}
	switch f {
	case faultHangup:
		j.cutBody(sh)
	case faultStall:
		<-j.ctx.Done()
		return
	case faultError:
		j.end(failed)
		j.writeError(serverError(500))
		return
	}
	j.end(completed)
	j.keepResponse()
	j.out = sh.plain(j.out[:0])
	if j.call.inBackground() {
		j.out = j.shapes.responses.appendResponse(j.out[:0], "queued")
	}
	j.writeBody(j.head(), 200)
}

// produce produces tokens, each when it is due. It reports false if the client has left.
func (j *job) produce(tokens int) bool {
	choices := max(1, j.plan.choices)
	steps := (tokens + choices - 1) / choices // the last may be cut by a fault
	for step := 0; step < steps; {
		if !j.plan.pace.wait(j.ctx, step) {
			return false
		}
		next := j.plan.pace.ready(step, steps)
		n := min(next*choices, tokens) - step*choices
		j.s.books.produce(&j.ticket, int64(n))
		step = next
	}
	return true
}

// cutBody promises the whole answer, sends half of it and hangs up.
func (j *job) cutBody(sh shape) {
	j.end(hungUp)
	j.out = sh.plain(j.out[:0])
	h := j.head()
	h.h["Content-Type"] = typeJSON
	h.set("Content-Length", strconv.Itoa(len(j.out)))
	j.w.WriteHeader(200)
	_, _ = j.w.Write(j.out[:len(j.out)/2])
	_ = http.NewResponseController(j.w).Flush()
	panic(http.ErrAbortHandler)
}

// stream sends each token as an event when it is due. A token is produced when its event has
// been flushed, so tokens that the client has not received are not.
func (j *job) stream(sh shape) {
	if !j.plan.pace.wait(j.ctx, 0) {
		return
	}
	tokens, f := j.plan.upTo()
	s := j.openStream()
	defer func() { j.out = s.buf }() // it has grown
	sh.begin(s)
	for i := range tokens {
		if !j.plan.pace.wait(j.ctx, i/j.plan.choices) {
			return
		}
		sh.token(s, i%j.plan.choices, i/j.plan.choices)
		if s.flush() != nil {
			return
		}
		j.s.books.produce(&j.ticket, 1)
	}
	if f != faultNone {
		j.fail(s, sh, f)
		return
	}
	if j.ctx.Err() != nil {
		return
	}
	j.end(completed)
	j.keepResponse()
	sh.end(s)
	_ = s.flush()
}

func (j *job) openStream() *sse {
	h := j.head()
	h.h["Content-Type"] = typeSSE
	h.h["Cache-Control"] = noCache
	h.h["X-Accel-Buffering"] = noBuffer
	j.w.WriteHeader(200)
	j.sse = newSSE(j)
	return &j.sse
}

// fail ends a stream by a fault.
func (j *job) fail(s *sse, sh shape, f fault) {
	// Events before the fault are sent, so that it happens in mid-answer.
	if len(s.buf) > 0 && s.flush() != nil {
		return
	}
	switch f {
	case faultHangup:
		j.end(hungUp)
		panic(http.ErrAbortHandler)
	case faultStall:
		<-j.ctx.Done()
	case faultError:
		j.end(failed)
		sh.broken(s, serverError(500))
		_ = s.flush()
	case faultBadSSE:
		if s.flood() == nil {
			j.end(failed)
		}
	}
}
