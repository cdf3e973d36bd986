package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// session is one realtime session.
type session struct {
	c                *call
	client, upstream *websocket.Conn
	idle             *time.Timer
	rested           chan struct{} // receives when a response has ended
	greeted          chan struct{} // closed when the first event of the upstream has come
	frames           chan message  // what the client says
	turned           chan struct{} // receives when the user has stopped speaking, and a response is due
	complained       time.Time     // when the client was last told that audio is held back; of fromClient
	greeting         bool          // the answer to greet has not come; of fromUpstream

	mu      sync.Mutex
	lease   governor.Lease // guarded by mu, as all below; of the session itself, while it is resting
	resting bool           // no response has a lease
	open    []*response    // that have not ended
	asking  int            // responses that wait for a lease
	active  int            // responses of which the client has seen the beginning, but not the end
	bound   int64          // tokens that a response may have unless it says; 0 is not known
	barred  bool           // a response was cancelled since there was room
	booked  governor.Usage // what was charged so far
	usage   governor.Usage // what could not be charged yet
	heard   int64          // tokens that the next prompt has from before
	said    tokens.Size    // of what was said since
	spoke   bool           // the first delta has come
	over    bool           // everything is settled; what still comes was estimated

	boundName string // of that bound, in the version of the API that the upstream speaks
	responds  bool   // there is a response after each turn of the user
	left      bool   // the upstream leaves that to the gateway
	stopped   bool   // the user has stopped speaking, and the audio is not committed yet
}

// message is one of the client's.
type message struct {
	kind websocket.MessageType
	text []byte
}

// newSession makes a session of an admitted call, whose lease it takes over.
func newSession(c *call, upstream *websocket.Conn) *session {
	s := &session{
		c: c, upstream: upstream, rested: make(chan struct{}, 1), greeted: make(chan struct{}), frames: make(chan message), turned: make(chan struct{}, mostOpen),
		lease: c.lease, resting: true, bound: c.tenant.MaxOutputTokens, boundName: boundKey,
	}
	c.lease = governor.Lease{}
	return s
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
	ends := make(chan sessionEnd, 6)
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
	both.Go(func() { ends <- sessionEnd{ofClient, s.guarded(ctx, s.readClient)} })
	both.Go(func() { ends <- sessionEnd{ofClient, s.guarded(ctx, s.fromClient)} })
	both.Go(func() { ends <- sessionEnd{ofUpstream, s.guarded(ctx, s.fromUpstream)} })
	both.Go(func() {
		if err := s.guarded(ctx, s.fromTurns); err != nil {
			ends <- sessionEnd{ofUpstream, err}
		}
	})
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

func (s *session) patience() time.Duration { return s.c.world.Snapshot.Config().Timeouts.StreamIdle }

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
			draining = nil
			leaving = true
		case <-s.rested:
		}
		if leaving && s.atRest() {
			return sessionEnd{ofGateway, errDrained}
		}
	}
}

// settle ends the lease with what was used, before anything else is waited for.
func (s *session) settle(end sessionEnd) {
	u, all := s.collect()
	defer func() {
		s.c.ending.usage = all
		s.c.ending.last = all
	}() // for the log
	code := websocket.CloseStatus(end.err)
	switch {
	case end.from == ofUpstream && errors.Is(end.err, errRefusedEvent):
		s.c.failure = end.err
		s.c.over(telemetry.Cancelled, "", u)
	case end.err == errDrained:
		s.c.over(telemetry.Failed, admission.CodeDraining, u)
	case end.err == errEndedEarly:
		s.c.failure = s.c.why()
		s.c.over(telemetry.Failed, admission.CodeStore, u)
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

// collect ends the leases of unfinished responses, all but the one that is left to the call. It returns
// what is to be charged with that one, and what the whole session took.
func (s *session) collect() (u, all governor.Usage) {
	s.mu.Lock()
	s.over = true
	open := s.open
	left := s.resting
	booked := s.booked
	s.open = nil
	s.c.lease = s.lease
	u = s.usage
	s.mu.Unlock()
	for _, r := range open {
		took := s.unfinished(r)
		if r.held && left {
			r.lease.Break(took)
			s.c.account.Took(took)
			booked = booked.Plus(took)
			continue
		}
		if r.held {
			s.c.lease = r.lease
			left = true
		}
		u = u.Plus(took)
	}
	return u, booked.Plus(u)
}

// apologize tells the client, if it is listening, that its session ends early.
func (s *session) apologize(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the upstream goes on until it is closed
	defer cancel()
	f := s.c.cutRefusal()
	_ = s.client.Write(ctx, websocket.MessageText, realtimeError(&f))
}

// closeBoth closes both sides, the other one in the words of the one that ended.
func (s *session) closeBoth(end sessionEnd) {
	code := websocket.StatusGoingAway
	reason := ""
	if ce, ok := errors.AsType[websocket.CloseError](end.err); ok {
		said := []byte(ce.Reason)
		s.c.try.up.secrets.Hide(said)
		code = ce.Code
		reason = string(said)
	} else if errors.Is(end.err, errRefusedEvent) {
		code = websocket.StatusPolicyViolation
		reason = "see the error event"
	} else if end.from == ofGateway {
		reason = end.err.Error()
	} else if end.from == ofUpstream {
		code = websocket.StatusInternalError
		reason = "the upstream broke off"
	}
	var both sync.WaitGroup
	both.Go(func() { _ = s.client.Close(code, reason) })
	both.Go(func() { _ = s.upstream.Close(code, reason) })
	both.Wait()
}

// readClient reads what the client says, one message ahead of what is passed on: so it is noticed that the
// client goes while a response of its waits.
func (s *session) readClient(ctx context.Context) error {
	for {
		kind, text, err := s.client.Read(ctx)
		if err != nil {
			return err
		}
		s.idle.Reset(s.patience())
		select {
		case s.frames <- message{kind, text}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fromClient passes on what the client says.
func (s *session) fromClient(ctx context.Context) error {
	s.awaitGreeting(ctx)
	for {
		var kind websocket.MessageType
		var text []byte
		select {
		case said := <-s.frames:
			kind = said.kind
			text = said.text
		case <-ctx.Done():
			return ctx.Err()
		}
		f := s.c.revoked()
		var event *head.Event
		if f == nil {
			event, f = s.c.checkEvent(text)
		}
		if f != nil {
			_ = s.write(ctx, s.client, websocket.MessageText, realtimeError(f))
			return errRefusedEvent
		}
		if f := s.limited(ctx, event); f != nil {
			if err := s.holdBack(ctx, event.Kind, f); err != nil {
				return err
			}
			continue
		}
		s.noteSaid(event)
		if err := s.write(ctx, s.upstream, kind, event.Edited()); err != nil {
			return err
		}
	}
}

// fromUpstream meters what the upstream says, and passes it on.
func (s *session) fromUpstream(ctx context.Context) error {
	for first := true; ; first = false {
		kind, text, err := s.upstream.Read(ctx)
		if err != nil {
			return err
		}
		s.idle.Reset(s.patience())
		s.c.try.up.secrets.Hide(text)
		said := gjson.GetBytes(text, "type").Str
		if said == "session.created" && first {
			if err := s.greet(ctx, text); err != nil {
				return err
			}
		}
		if first {
			close(s.greeted)
		}
		if s.forGateway(said, text) {
			continue
		}
		f := s.meter(ctx, said, text)
		if err := s.write(ctx, s.client, kind, text); err != nil {
			return err
		}
		if said == "response.done" {
			s.noteRest()
		}
		if f == nil {
			continue
		}
		if said == "response.created" {
			if err := s.cancel(ctx, gjson.GetBytes(text, "response.id").Str); err != nil {
				return err
			}
		}
		if err := s.refuse(ctx, f); err != nil {
			return err
		}
	}
}

// meter takes in an event of the upstream. It returns a refusal if the event began what the limits have
// no room for.
func (s *session) meter(ctx context.Context, kind string, text []byte) *refusal {
	get := func(path string) gjson.Result { return gjson.GetBytes(text, path) }
	switch {
	case kind == "response.created":
		return s.begun(ctx, get("response.id").Str)
	case strings.HasPrefix(kind, "response.") && strings.HasSuffix(kind, ".delta"):
		s.delta(get("response_id").Str)
	case kind == "response.done":
		s.done(get("response.id").Str, get("response.usage"))
	case kind == "conversation.item.input_audio_transcription.completed":
		s.took(realtimeUsage(get("usage")))
		return s.spent()
	case kind == "input_audio_buffer.speech_stopped", kind == "input_audio_buffer.committed":
		s.noteTurn(kind)
	case kind == "error":
		s.notBegun(get("error.event_id").Str)
	}
	return nil
}

// noteRest lets a drain see that the client has received the end of a response.
func (s *session) noteRest() {
	s.mu.Lock()
	s.active = max(0, s.active-1)
	s.mu.Unlock()
	select {
	case s.rested <- struct{}{}:
	default:
	}
}

func (s *session) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// write bounds how long to wait for a side that reads nothing.
func (s *session) write(ctx context.Context, to *websocket.Conn, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience(), streaming.ErrIdle)
	defer cancel()
	return to.Write(ctx, kind, text)
}
