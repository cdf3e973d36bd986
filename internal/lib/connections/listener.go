package connections

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Listener accepts connections as its limits allow.
type Listener struct {
	net.Listener

	closing chan struct{}
	once    sync.Once
	changed chan struct{} // has one value when there may be room

	mu    sync.Mutex
	table table // guarded by mu
}

// New wraps a listener.
func New(l net.Listener, limits Limits) *Listener {
	return &Listener{
		Listener: l, closing: make(chan struct{}), changed: make(chan struct{}, 1),
		table: table{limits: limits},
	}
}

// Accept implements net.Listener. It waits until there is room.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: inner, of: l}
	for {
		ok, old, wait := l.admit(c)
		if ok {
			return c, nil
		}
		if old != nil {
			_ = old.Conn.Close()
			continue
		}
		if !l.await(wait) {
			_ = inner.Close()
			return nil, net.ErrClosed
		}
	}
}

func (l *Listener) admit(c *Conn) (ok bool, old *Conn, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.admit(c, time.Now())
}

// await waits until something changes, or for a time if there is one. It reports false if the
// listener was closed.
func (l *Listener) await(most time.Duration) bool {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-l.closing:
		return false
	case <-l.changed:
	case <-over:
	}
	return true
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closing) })
	return l.Listener.Close()
}

// Stats counts the connections.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.stats()
}

// change changes the table, closes the connection that gives way, if any, and signals that there may be room.
func (l *Listener) change(f func(*table) *Conn) {
	l.mu.Lock()
	old := f(&l.table)
	l.mu.Unlock()
	if old != nil {
		_ = old.Conn.Close()
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn

	of    *Listener
	known atomic.Bool
	calls atomic.Int32 // under way
	ended atomic.Int64 // when the last one ended, in nanoseconds since 1970

	since   time.Time     // guarded by of.mu
	tenant  string        // guarded by of.mu
	list    *list.List    // guarded by of.mu; of strangers, of its tenant, or nil
	place   *list.Element // guarded by of.mu; in the list
	removed bool          // guarded by of.mu
}

// idle reports whether nothing has been called since then.
func (c *Conn) idle(then time.Time) bool {
	return c.calls.Load() == 0 && c.ended.Load() <= then.UnixNano() && !c.since.After(then)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.of.change(func(t *table) *Conn { t.remove(c); return nil })
	return err
}

// CloseWrite lets net/http end its side before it closes a connection with unread data.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Inner is the connection that this one counts. What is written there directly can leave in one system call (net.Buffers).
func (c *Conn) Inner() net.Conn { return c.Conn }

type key struct{}

// Context is for http.Server.ConnContext: it lets Known find the connection.
func Context(ctx context.Context, c net.Conn) context.Context {
	if secured, is := c.(*tls.Conn); is {
		c = secured.NetConn()
	}
	if c, ok := c.(*Conn); ok {
		return context.WithValue(ctx, key{}, c)
	}
	return ctx
}

// of is the connection of a request; nil if it is not of a Listener.
func of(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}

// Known records that a request with this context had a valid key of a tenant or one of its teams, or "" for a token. It reports false
// if the tenant has as many connections as it may: then the request is to be refused, and the connection to end.
func Known(ctx context.Context, tenant string) bool {
	c := of(ctx)
	if c == nil || c.known.Load() {
		return true
	}
	tenant, _, _ = strings.Cut(tenant, "/")
	ok := false
	c.of.change(func(t *table) (old *Conn) {
		ok, old = t.know(c, tenant, time.Now())
		return old
	})
	c.known.Store(ok)
	return ok
}

// Begin notes that a call with this context has begun, and End of what it returns that the call has ended. A connection with calls gives way
// to no other one.
func Begin(ctx context.Context) *Conn {
	c := of(ctx)
	if c != nil {
		c.calls.Add(1)
	}
	return c
}

// End notes the end of a call that Begin noted. c may be nil.
func (c *Conn) End() {
	if c != nil {
		c.ended.Store(time.Now().UnixNano())
		c.calls.Add(-1)
	}
}
