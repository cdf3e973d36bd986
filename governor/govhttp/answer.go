package govhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

// meter is an answer whose body ends the lease, when it has been read to its end or is closed. It is another http.Response, because bodies of
// net/http reach their own, for its trailers: by that the lease would reach what the caller has, which could never be found forgotten.
func meter(c *call, l *client.Lease, resp *http.Response) *http.Response {
	m := &metered{lease: l}
	if resp.Body == nil { // of a stand-in; net/http has one in any case
		resp.Body = http.NoBody
	}
	switch {
	case resp.StatusCode/100 != 2:
		_ = l.End(client.End{Outcome: client.AnsweredError, Status: resp.StatusCode})
		m.body = resp.Body
	case streaming.IsEventStream(resp.Header):
		resp.Header.Del("Content-Length") // withholding changes it
		resp.ContentLength = -1
		m.body = streaming.NewBody(resp.Body, streaming.Options{
			WithholdUsage: c.added&upstreams.AddedUsage != 0,
			Progress:      l.ProgressDeltas,
			End:           m.end,
		})
	default:
		m.body = streaming.NewWhole(resp.Body, streaming.WholeOptions{Text: c.route.Sounds, End: m.end})
	}
	m.left = context.AfterFunc(l.Context(), func() { _ = m.shut() }) // a caller that is gone reads no more, and may never close
	out := *resp
	b := &body{of: m, answer: &out, from: resp}
	client.HeldBy(l, b)
	out.Body = b
	return &out
}

// body is what the caller has of a metered one. If it is forgotten, so is the lease.
type body struct {
	of           *metered
	answer, from *http.Response
}

func (b *body) Read(p []byte) (int, error) {
	defer runtime.KeepAlive(b)
	n, err := b.of.Read(p)
	if err == io.EOF {
		b.answer.Trailer = b.from.Trailer
	}
	return n, err
}

func (b *body) Close() error {
	defer runtime.KeepAlive(b)
	return b.of.Close()
}

// metered is the body of an answer that holds a lease.
type metered struct {
	lease *client.Lease
	body  io.ReadCloser
	left  func() bool // stops waiting for the end of the call's context
	once  sync.Once   // shuts the body

	mu     sync.Mutex
	broken error // guarded by mu: the model server broke off
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	if err == nil {
		return n, nil
	}
	err = m.reason(err)
	_ = m.Close()
	return n, err
}

// reason is the error with which the body ends.
func (m *metered) reason(err error) error {
	m.mu.Lock()
	broken := m.broken
	m.mu.Unlock()
	gone := m.lease.Context().Err()
	switch {
	case err == io.EOF && broken == nil:
		return io.EOF
	case err == io.EOF:
		return broken
	case err == streaming.ErrClosed && gone != nil:
		return because(m.lease, gone)
	}
	return because(m.lease, err)
}

func (m *metered) Close() error {
	m.left()
	return m.shut()
}

// shut closes the body, which ends the lease if it has not ended, and waits if another goroutine is about to.
func (m *metered) shut() (err error) {
	m.once.Do(func() {
		err = m.body.Close()
		m.lease.Close()
	})
	return err
}

// outcomes are how calls ended by the ends of their answers.
var outcomes = map[streaming.Cause]client.Outcome{
	streaming.Completed:      client.Completed,
	streaming.Truncated:      client.Failed,
	streaming.UpstreamFailed: client.Failed,
	streaming.IdleTimeout:    client.Failed,
	streaming.ClientGone:     client.Cancelled,
}

// end ends the lease by the end of the answer. A stream that ends in an error event is one that the caller can read.
func (m *metered) end(res streaming.Result) {
	if res.Cause == streaming.Truncated && res.Err != streaming.ErrEmpty { // of nothing, the caller can see as much
		m.mu.Lock()
		m.broken = res.Err
		m.mu.Unlock()
	}
	if res.InPlace() {
		_ = m.lease.End(client.End{Outcome: client.AnsweredError, Status: http.StatusBadGateway})
		return
	}
	_ = m.lease.End(client.End{
		Outcome: outcomes[res.Cause], Usage: client.Usage(res.Usage), Reported: res.Reported,
		Produced: client.Produced{Tokens: tokens.OfText(res.Text), Deltas: res.Deltas},
	})
}

// answerOf is a refusal as an answer, in the dialect of its route.
func answerOf(c *call, f *client.Refusal) *http.Response {
	h := f.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("X-Request-Id", f.ID)
	body := c.dialect.Refuse(h, &ask.Refusal{
		Status: f.Status, Code: string(f.Code), Kind: f.Kind, Param: f.Param, Message: f.Message, RetryAfter: f.RetryAfter, Final: f.Final,
	}, "")
	return &http.Response{
		Status: strconv.Itoa(f.Status) + " " + http.StatusText(f.Status), StatusCode: f.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: c.in,
	}
}
