package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

var errTimeout = errors.New("load: no end of the answer within the timeout")

// attempt sends a call once, and reads the answer.
func (r *runner) attempt(ctx context.Context, t *Tenant, c *Call, body []byte, try int) *attempt {
	a := &attempt{sent: r.now(), headers: never, first: never, end: never}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(r.plan.Timeout, func() { cancel(errTimeout) })
	defer timeout.Stop()
	if c.Stream && t.Storm.Every > 0 {
		defer r.open[c.Tenant].add(c.Luck, func() { cancel(errBroken) })()
	}
	err := r.exchange(own, a, t, c, body, try)
	if err == nil {
		return a
	}
	a.end = r.now()
	switch cause := context.Cause(own); {
	case err == errBroken || cause == errBroken:
		a.outcome = Broken
	case cause == errTimeout:
		a.timedOut = true
		a.fail("timeout", fmt.Sprintf("no end of the answer within %s", r.plan.Timeout))
	case cause != nil:
		a.outcome = Unfinished
	default:
		a.fail("network: "+networkKind(err), err.Error())
	}
	return a
}

// exchange is the HTTP of an attempt. It returns errors of the network or the context, or errBroken.
func (r *runner) exchange(ctx context.Context, a *attempt, t *Tenant, c *Call, body []byte, try int) error {
	req, err := t.request(ctx, r.base, body, try)
	if err != nil {
		return err
	}
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.headers = r.now()
	a.status = resp.StatusCode
	switch {
	case resp.StatusCode != http.StatusOK:
		return a.refusal(resp, r.now)
	case !c.Stream:
		return a.whole(resp.Body, r.now)
	case !isStream(resp.Header):
		a.end = r.now()
		a.fail("stream: none", "the call asked for a stream, the answer is "+resp.Header.Get("Content-Type"))
		return nil
	}
	return a.stream(resp.Body, c, r.now)
}

// networkKind sorts errors into a few kinds, because their texts contain addresses and ports.
func networkKind(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "no such host"
	}
	return "other"
}

// openStreams are the running streams of a tenant with storms.
type openStreams struct {
	mu   sync.Mutex
	list map[*stream]struct{} // guarded by mu
}

type stream struct {
	luck     float64
	breakOff func()
}

// add adds a stream, and returns a function that removes it.
func (o *openStreams) add(luck float64, breakOff func()) (remove func()) {
	s := &stream{luck, breakOff}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = map[*stream]struct{}{}
	}
	o.list[s] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.list, s)
	}
}

// storm breaks off those streams whose luck is below the share.
func (o *openStreams) storm(share float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.list {
		if s.luck < share {
			s.breakOff()
		}
	}
}
