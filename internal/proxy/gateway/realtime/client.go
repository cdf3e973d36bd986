package realtime

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// clientSide passes on the messages of the client.
type clientSide struct {
	line    *line
	guard   guard
	book    *book
	turns   *turns
	greeted <-chan struct{} // closed when the first event of the upstream has come
	frames  chan message    // messages of the client
	told    time.Time       // when the client was last told that audio is held back
}

// message is one of the client's.
type message struct {
	kind    websocket.MessageType
	text    []byte
	release func() // of its memory
}

// messageTime is how long a message may take to come, since it has memory meanwhile.
const messageTime = 2 * time.Minute

// read reads messages of the client, one ahead of those that are passed on: so it is noticed if the client
// goes while a response of its waits.
func (c *clientSide) read(ctx context.Context) error {
	for {
		kind, from, err := c.line.client.Reader(ctx)
		if err != nil {
			return err
		}
		late := time.AfterFunc(messageTime, func() { _ = c.line.client.CloseNow() })
		text, release, f, err := c.guard.call.Receive(ctx, from)
		late.Stop()
		if f != nil {
			_ = c.line.toClient(ctx, websocket.MessageText, errorEvent(f))
			return errRefusedEvent
		}
		if err != nil {
			return err
		}
		c.line.alive()
		select {
		case c.frames <- message{kind, text, release}:
		case <-ctx.Done():
			release()
			return ctx.Err()
		}
	}
}

// pass passes them on.
func (c *clientSide) pass(ctx context.Context) error {
	c.awaitGreeting(ctx)
	for {
		select {
		case said := <-c.frames:
			if err := c.passOne(ctx, said); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passOne passes one message on, if the limits have room for it.
func (c *clientSide) passOne(ctx context.Context, said message) error {
	defer said.release()
	event, f := c.guard.check(said.text)
	if f != nil {
		_ = c.line.toClient(ctx, websocket.MessageText, errorEvent(f))
		return errRefusedEvent
	}
	if f := c.limit(ctx, event); f != nil {
		return c.holdBack(ctx, event.Kind, f)
	}
	c.book.said(event)
	return c.line.toUpstream(ctx, said.kind, event.Edited())
}

// limit applies the tenant's limits to an event of the client, and returns why it is not passed on.
func (c *clientSide) limit(ctx context.Context, e *head.Event) *ask.Refusal {
	c.book.clamp(e)
	c.turns.take(e)
	switch e.Kind {
	case head.EventCreate:
		return c.book.ask(ctx, e)
	case head.EventAppend, head.EventCommit:
		return c.book.overLimit()
	}
	return nil
}

// tellEvery is how often a client is told at most that its audio is held back: it sends some fifty
// events a second.
const tellEvery = time.Second

// holdBack tells the client that an event is not passed on. After a spent budget the session ends.
func (c *clientSide) holdBack(ctx context.Context, kind string, f *ask.Refusal) error {
	now := time.Now()
	if kind == head.EventAppend && now.Sub(c.told) < tellEvery {
		return nil
	}
	if kind == head.EventAppend {
		c.told = now
	}
	return c.line.refuse(ctx, f)
}

// greetPatience is how long a client's first event waits for the upstream to describe the session.
const greetPatience = 2 * time.Second

// awaitGreeting waits until the upstream has described the session.
func (c *clientSide) awaitGreeting(ctx context.Context) {
	timer := time.NewTimer(greetPatience)
	defer timer.Stop()
	select {
	case <-c.greeted:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ownTurn is the id of the events by which the gateway asks for responses.
const ownTurn = ownEvent + "turn"

// takeTurns asks for a response after each turn of the user, when there is room for it.
func (c *clientSide) takeTurns(ctx context.Context) error {
	for {
		select {
		case <-c.turns.due:
		case <-ctx.Done():
			return nil
		}
		f := c.book.ask(ctx, &head.Event{Text: []byte("{}"), Kind: head.EventCreate, ID: ownTurn})
		var err error
		if f == nil {
			err = c.line.instruct(ctx, head.EventCreate, ownTurn, "")
		} else {
			err = c.line.refuse(ctx, f)
		}
		if err != nil {
			return err
		}
	}
}
