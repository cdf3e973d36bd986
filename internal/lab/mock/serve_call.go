package mock

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// serveCall answers a call to the model, step by step.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, rt route) {
	j := jobs.Get().(*job)
	j.s = s
	j.w = w
	j.ctx = r.Context()
	j.start = time.Now()
	j.seq = s.seq.Add(1)
	j.call.route = rt
	// The books are closed on every way out, also by a panic. If no end was booked before, the
	// client has left.
	defer j.release()
	s.books.arrive()

	// 1. Is it a request that can be answered?
	e, err := j.parse(r)
	if err != nil {
		j.end(cancelled)
		j.writeError(badRequest("", "The request body could not be read."))
		return
	}
	// 2. Does it fail, by a draw or its hook?
	if e == nil && j.plan.status != 0 {
		e = injected(j.plan.status)
	}
	if e != nil {
		j.end(failed)
		j.writeError(e)
		return
	}
	// 3. Do the limits allow it?
	j.verdict = s.books.admit(&j.ticket)
	if !j.verdict.ok {
		j.end(refused)
		j.writeError(j.verdict.err(j.call.model.Str))
		return
	}
	j.cachePrompt()
	// 4. Wait for a slot, and produce.
	if !s.books.acquire(j.ctx, &j.ticket) {
		return
	}
	j.plan.pace.begin(s.batch, j.ticket.prompt)
	sh := j.shapes.of(j.call.route)
	sh.prepare(j, strconv.FormatInt(j.start.Unix(), 10))
	if j.call.streams() {
		j.stream(sh)
	} else {
		j.answer(sh)
	}
}

// parse reads the request and plans the answer. The error is a client that could not be read.
func (j *job) parse(r *http.Request) (*apiError, error) {
	if !j.s.authorised(r) {
		return unauthorised(r), nil
	}
	err := readBody(&j.body, r)
	switch {
	case errors.Is(err, errBodyTooLarge):
		e := badRequest("", "Request body is too large.")
		e.status = 413
		return e, nil
	case err != nil:
		return nil, err
	}
	// A copy, so that the buffer can be used again while values point into the text. Compared
	// with the check of its syntax, copying costs nothing.
	body := j.body.String()
	if !gjson.Valid(body) || !gjson.Parse(body).IsObject() {
		return badRequest("", "We could not parse the JSON body of your request."), nil
	}
	j.call.scan(j.call.route, body)
	if e := j.call.check(); e != nil {
		return e, nil
	}
	j.plan = j.s.plan(&j.call, j.seq)
	most := j.plan.total()
	if bound := j.call.bound(); bound > 0 {
		most = j.plan.choices * bound
	}
	if most > maxOutput {
		return badRequest("n", "The choices together ask for too many tokens: "+strconv.Itoa(most)+"."), nil
	}
	j.ticket.prompt = j.call.promptTokens() + j.s.farTokens(&j.call, body)
	j.ticket.bound = int64(most)
	return nil, nil
}

func readBody(buf *bytes.Buffer, r *http.Request) error {
	_, err := buf.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	if buf.Len() > maxBody {
		return errBodyTooLarge
	}
	return err
}
