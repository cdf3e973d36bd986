package realtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Session is one realtime session.
type Session struct {
	call  Call
	line  *line
	book  *book
	rest  *rest
	sides struct {
		client   *clientSide
		upstream *upstreamSide
	}
}

// New makes a session of an admitted call.
func New(call Call, terms Terms, upstream *websocket.Conn) *Session {
	s := &Session{
		call: call,
		line: &line{upstream: upstream, patience: terms.Patience},
		book: newBook(call, &terms),
		rest: newRest(),
	}
	turns := newTurns()
	greeted := make(chan struct{})
	s.sides.client = &clientSide{
		line:    s.line,
		guard:   guard{call, terms.Model},
		book:    s.book,
		turns:   turns,
		greeted: greeted,
		frames:  make(chan message),
	}
	s.sides.upstream = &upstreamSide{
		call:    call,
		terms:   &terms,
		line:    s.line,
		book:    s.book,
		turns:   turns,
		rest:    s.rest,
		greeted: greeted,
	}
	return s
}

// Pinged keeps a session alive whose client only shows that it is there. Pings of the upstream are
// answered but keep nothing alive, since the client may be gone.
func (s *Session) Pinged(context.Context, []byte) bool {
	s.line.alive()
	return true
}

// Run passes messages on until either side goes away, nothing comes for too long, or the gateway
// drains. It settles the call.
func (s *Session) Run(client *websocket.Conn, draining <-chan struct{}) {
	s.line.client = client
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.call.Context()))
	defer cancel()
	causes := make(chan cause, 6)
	end := func(err error) {
		select {
		case causes <- cause{ofGateway, err}:
		default: // it has ended
		}
	}
	s.line.idle = time.AfterFunc(s.line.patience, func() { end(errIdle) })
	defer s.line.idle.Stop()
	s.call.EndBy(func(error) { end(errEndedEarly) })
	var both sync.WaitGroup
	both.Go(func() { causes <- cause{ofClient, s.guarded(ctx, s.sides.client.read)} })
	both.Go(func() { causes <- cause{ofClient, s.guarded(ctx, s.sides.client.pass)} })
	both.Go(func() { causes <- cause{ofUpstream, s.guarded(ctx, s.sides.upstream.pass)} })
	both.Go(func() {
		if err := s.guarded(ctx, s.sides.client.takeTurns); err != nil {
			causes <- cause{ofUpstream, err}
		}
	})
	why := s.wait(causes, draining)
	s.settle(why)
	if errors.Is(why.err, errEndedEarly) {
		s.apologize(ctx)
	}
	s.closeBoth(why)
	cancel()
	both.Wait()
}

// guarded turns a panic into the end of this session alone.
func (s *Session) guarded(ctx context.Context, pass func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.call.Panicked(cause)
			err = errPanicked
		}
	}()
	return pass(ctx)
}

// wait waits for the end of the session. While the gateway drains, a session ends as soon as no
// response is under way.
func (s *Session) wait(causes <-chan cause, draining <-chan struct{}) cause {
	leaving := false
	for {
		select {
		case why := <-causes:
			return why
		case <-s.call.Context().Done():
			return cause{ofGateway, errDrained}
		case <-draining:
			draining = nil
			leaving = true
		case <-s.rest.ended:
		}
		if leaving && s.rest.reached() {
			return cause{ofGateway, errDrained}
		}
	}
}

// settle ends the call with the usage of the session, before anything else is waited for.
func (s *Session) settle(why cause) {
	end := why.end(s.call)
	s.book.close(&end)
	s.call.Settle(end)
}

// apologize tells the client, if it is listening, that its session ends early.
func (s *Session) apologize(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the upstream goes on until it is closed
	defer cancel()
	f, _ := s.call.Cut()
	_ = s.line.client.Write(ctx, websocket.MessageText, errorEvent(f))
}

// closeBoth closes both sides, the other one in the words of the one that ended.
func (s *Session) closeBoth(why cause) {
	code, reason := why.words(s.call)
	var both sync.WaitGroup
	both.Go(func() { _ = s.line.client.Close(code, reason) })
	both.Go(func() { _ = s.line.upstream.Close(code, reason) })
	both.Wait()
}
