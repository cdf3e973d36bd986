// Package cancel is context.WithCancelCause for a context of which one function is to know the end.
//
// For that one package context keeps a map of children, makes another context with a map for the function, and a channel
// for each. A call through the gateway has such a context, and its connection to the upstream is that function. A
// [Context] has room for the function instead. Whatever else one may ask of a context, a full one is made for.
package cancel

import (
	"context"
	"sync"
)

// Context ends with its parent, or before that by Cancel. It begins with nothing but a parent. Its methods may be called by any goroutine.
type Context struct {
	context.Context // the parent

	mu    sync.Mutex
	leave func() bool // guarded by mu; makes the parent forget it; nil before anybody listens
	err   error       // guarded by mu; nil until the end
	cause error       // guarded by mu
	after func()      // guarded by mu; runs at the end; nil if there is none
	turn  int         // guarded by mu; counts the functions that were set
	full  *full       // guarded by mu; nil if nobody has needed it
}

// full is a context of package context that ends likewise.
type full struct {
	context.Context
	end context.CancelCauseFunc
}

// WithCause returns a context that has to be ended, so that its parent forgets it. It listens to the parent from when somebody
// listens to it.
func WithCause(parent context.Context) *Context { return &Context{Context: parent} }

// AfterFunc is context.AfterFunc, but makes no other context if ctx has room for the function.
func AfterFunc(ctx context.Context, f func()) (stop func() bool) {
	roomy, ok := ctx.(interface{ AfterFunc(func()) func() bool })
	switch {
	case ok:
		return roomy.AfterFunc(f)
	case ctx.Done() == nil:
		return neverRuns
	}
	return context.AfterFunc(ctx, f)
}

// neverRuns is the stop of a function whose context does not end.
func neverRuns() bool { return true }

// Cancel ends the context for a cause, if it has not ended.
func (c *Context) Cancel(cause error) {
	if c.Err() == nil {
		c.endFor(context.Canceled, cause)
	}
}

func (c *Context) endWithParent() { c.endFor(c.Context.Err(), context.Cause(c.Context)) }

func (c *Context) endFor(err, cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.cause = cause
	after := c.after
	c.after = nil
	full := c.full
	leave := c.leave
	c.mu.Unlock()
	if leave != nil {
		leave()
	}
	if full != nil {
		full.end(cause)
	}
	if after != nil {
		go after()
	}
}

// AfterFunc is found by AfterFunc, and by package context.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.after != nil {
		return context.AfterFunc(c.fullLocked(), f)
	}
	c.after = f
	if c.leave == nil {
		c.leave = AfterFunc(c.Context, c.endWithParent)
	}
	c.turn++
	turn := c.turn
	return func() bool { return c.forget(turn) }
}

// forget reports whether a function was still to run, which now will not.
func (c *Context) forget(turn int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after == nil || c.turn != turn {
		return false
	}
	c.after = nil
	return true
}

// Err implements context.Context.
func (c *Context) Err() error {
	if c.Context.Err() != nil {
		c.endWithParent()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fullLocked().Done()
}

// Value implements context.Context. After the end it is how context.Cause finds the cause.
func (c *Context) Value(key any) any {
	return c.valued().Value(key)
}

func (c *Context) valued() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == nil && c.err == nil {
		return c.Context
	}
	return c.fullLocked()
}

// fullLocked is the full context. It ends with the parent by itself, unless c has ended before that.
func (c *Context) fullLocked() *full {
	if c.full == nil {
		parent := c.Context
		if c.err != nil {
			parent = context.WithoutCancel(parent)
		}
		ctx, end := context.WithCancelCause(parent)
		c.full = &full{ctx, end}
	}
	if c.err != nil {
		c.full.end(c.cause)
	}
	return c.full
}
