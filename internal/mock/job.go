package mock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
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
	out  []byte // what is being written
	sse  sse

	chat        chat
	completions completions
	responses   responses
	messages    messages
	embeddings  embeddings
	moderations moderations
	count       count
}

// shape is how an endpoint clothes tokens. Its methods append to a buffer and do no I/O.
type shape interface {
	plain(b []byte) []byte          // the whole answer as one object
	begin(s *sse)                   // events before the first token
	token(s *sse, choice, i int)    // the event of token i of a choice
	end(s *sse)                     // events after the last token
	broken(s *sse, e *apiError)     // event of an error in mid-stream
	prepare(j *job, created string) // called before all others
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// serveCall answers a call to the model, step by step.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, rt route) {
	j := jobs.Get().(*job)
	j.s = s
	j.w = w
	j.ctx = r.Context()
	j.start = time.Now()
	j.seq = s.seq.Add(1)
	j.call.route = rt
	// Whatever way is taken out of here, also by panic, the books are closed. An end that was
	// not booked before this one is a client who went away.
	defer j.release()
	s.books.arrive()

	// 1. Is it a request that can be answered?
	e, err := j.parse(r)
	if err != nil {
		j.end(cancelled)
		j.writeError(badRequest("", "The request body could not be read."))
		return
	}
	// 2. Is it to fail, by draw or by its own wish?
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
	// 4. Wait for a slot, and produce.
	if !s.books.acquire(j.ctx, &j.ticket) {
		return
	}
	j.plan.pace.start = time.Now()
	sh := j.shape()
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
	// The copy outlives no request, but lets the buffer be used again while values point
	// into the text. Beside the check of its syntax, copying costs nothing.
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

func (j *job) shape() shape {
	switch j.call.route {
	case routeCompletions:
		return &j.completions
	case routeResponses:
		return &j.responses
	case routeEmbeddings:
		return &j.embeddings
	case routeModerations:
		return &j.moderations
	case routeMessages:
		return &j.messages
	case routeCount:
		return &j.count
	default:
		return &j.chat
	}
}

func (j *job) appendID(b []byte, prefix string) []byte { return j.s.appendID(b, prefix, j.seq) }

// end closes the books on j. It comes before the last byte is written, so that who has read
// an answer finds it in Stats.
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
	*j = job{body: j.body, out: j.out[:0], chat: j.chat.reuse(), completions: j.completions.reuse(), responses: j.responses.reuse(), messages: j.messages.reuse()}
	jobs.Put(j)
}
