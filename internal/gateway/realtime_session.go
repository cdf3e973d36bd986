package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// session is one realtime session.
type session struct {
	c                *call
	client, upstream *websocket.Conn
	idle             *time.Timer
	rested           chan struct{} // receives when a response has ended

	mu     sync.Mutex
	booked governor.Usage // guarded by mu, as all below; what was charged so far
	usage  governor.Usage // what could not be charged yet
	active int            // responses in course
	asked  int            // responses asked for that have not begun
	deltas int64          // of those
	heard  int64          // tokens that the next prompt has from before
	said   int64          // weight of what was said since
	spoke  bool           // the first delta has come
	over   bool           // everything is settled; what still comes was estimated
}

// side is the side from which a session was ended.
type side int

const (
	ofClient side = iota
	ofUpstream
	ofGateway
)

// sessionEnd is why a session ends.
type sessionEnd struct {
	from side
	err  error
}

var (
	errIdleSession = errors.New("nothing was said for too long")
	errPanicked    = errors.New("the gateway failed")
	errDrained     = errors.New("this gateway is shutting down")
	errEndedEarly  = errors.New("this gateway had to end the session early")
)

// run passes messages on until either side goes away, nothing comes for too long, or the gateway
// drains. It ends the lease.
func (s *session) run(draining <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.c.r.Context()))
	defer cancel()
	ends := make(chan sessionEnd, 4)
	end := func(err error) {
		select {
		case ends <- sessionEnd{ofGateway, err}:
		default: // it has ended
		}
	}
	s.idle = time.AfterFunc(s.patience(), func() { end(errIdleSession) })
	defer s.idle.Stop()
	s.c.endBy(func(error) { end(errEndedEarly) })
	var both sync.WaitGroup
	both.Go(func() { ends <- sessionEnd{ofClient, s.guarded(ctx, s.fromClient)} })
	both.Go(func() { ends <- sessionEnd{ofUpstream, s.guarded(ctx, s.fromUpstream)} })
	over := s.wait(ends, draining)
	s.settle(over)
	if over.err == errEndedEarly {
		s.apologize(ctx)
	}
	s.closeBoth(over)
	cancel()
	both.Wait()
}

// guarded turns a panic into the end of this session alone.
func (s *session) guarded(ctx context.Context, pass func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.c.g.log.Error("panic", "request_id", s.c.id, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			crash(cause)
			err = errPanicked
		}
	}()
	return pass(ctx)
}

// pinged keeps a session alive whose client only shows that it is there. Pings of the upstream are
// answered but keep nothing alive, since the client may be gone.
func (s *session) pinged(context.Context, []byte) bool {
	s.idle.Reset(s.patience())
	return true
}

func (s *session) patience() time.Duration { return s.c.world.snap.Config().Timeouts.StreamIdle }

// wait waits for the end of the session. While the gateway drains, a session ends as soon as no
// response is under way.
func (s *session) wait(ends <-chan sessionEnd, draining <-chan struct{}) sessionEnd {
	leaving := false
	for {
		select {
		case end := <-ends:
			return end
		case <-s.c.r.Context().Done():
			return sessionEnd{ofGateway, errDrained}
		case <-draining:
			draining, leaving = nil, true
		case <-s.rested:
		}
		if leaving && s.atRest() {
			return sessionEnd{ofGateway, errDrained}
		}
	}
}

// settle ends the lease with what was used, before anything else is waited for.
func (s *session) settle(end sessionEnd) {
	s.mu.Lock()
	u := s.usage.Plus(s.unfinishedLocked())
	all := s.booked.Plus(u)
	s.over = true
	s.mu.Unlock()
	defer func() { s.c.ending.usage, s.c.ending.last = all, all }() // for the log
	code := websocket.CloseStatus(end.err)
	switch {
	case end.err == errDrained:
		s.c.over(telemetry.Failed, codeDraining, u)
	case end.err == errEndedEarly:
		s.c.failure = s.c.why()
		s.c.over(telemetry.Failed, codeStore, u)
	case end.from == ofUpstream && code == -1:
		s.c.failure = end.err
		s.c.failed("truncated", u)
	case end.from == ofClient && code == -1:
		s.c.failure = end.err
		s.c.over(telemetry.Cancelled, "", u)
	default:
		if end.err == errIdleSession {
			s.c.g.metrics.Expired.Inc()
		}
		s.c.over(telemetry.OK, "", u)
	}
}

// apologize tells the client, if it is listening, that its session ends early.
func (s *session) apologize(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the upstream goes on until it is closed
	defer cancel()
	f := s.c.cutRefusal()
	_ = s.client.Write(ctx, websocket.MessageText, f.realtimeEvent())
}

// closeBoth closes both sides, the other one in the words of the one that ended.
func (s *session) closeBoth(end sessionEnd) {
	code, reason := websocket.StatusGoingAway, ""
	if ce, ok := errors.AsType[websocket.CloseError](end.err); ok {
		code, reason = ce.Code, ce.Reason
	} else if end.from == ofGateway {
		reason = end.err.Error()
	} else if end.from == ofUpstream {
		code, reason = websocket.StatusInternalError, "the upstream broke off"
	} else if errors.Is(end.err, errRefusedEvent) {
		code, reason = websocket.StatusPolicyViolation, "see the error event"
	}
	var both sync.WaitGroup
	both.Go(func() { _ = s.client.Close(code, reason) })
	both.Go(func() { _ = s.upstream.Close(code, reason) })
	both.Wait()
}

// fromClient passes on what the client says.
func (s *session) fromClient(ctx context.Context) error {
	for {
		kind, text, err := s.client.Read(ctx)
		if err != nil {
			return err
		}
		s.idle.Reset(s.patience())
		f := s.c.revoked()
		if f == nil {
			f = s.c.checkEvent(kind, text)
		}
		if f != nil {
			_ = s.write(ctx, s.client, websocket.MessageText, f.realtimeEvent())
			return errRefusedEvent
		}
		if f := s.overLimit(text); f != nil {
			if err := s.write(ctx, s.client, websocket.MessageText, f.realtimeEvent()); err != nil {
				return err
			}
			continue
		}
		s.noteSaid(text)
		if err := s.write(ctx, s.upstream, kind, text); err != nil {
			return err
		}
	}
}

// fromUpstream meters what the upstream says, and passes it on.
func (s *session) fromUpstream(ctx context.Context) error {
	for {
		kind, text, err := s.upstream.Read(ctx)
		if err != nil {
			return err
		}
		s.idle.Reset(s.patience())
		done := s.meter(text)
		if err := s.write(ctx, s.client, kind, text); err != nil {
			return err
		}
		if done {
			s.rest()
		}
	}
}

// write bounds how long to wait for a side that reads nothing.
func (s *session) write(ctx context.Context, to *websocket.Conn, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience(), streaming.ErrIdle)
	defer cancel()
	return to.Write(ctx, kind, text)
}
