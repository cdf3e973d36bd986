package cancel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var (
	errGone = errors.New("the caller has gone")
	errIdle = errors.New("nothing has come for too long")
)

type key struct{}

// theirs and ours are made alike.
var makers = map[string]func(context.Context) (context.Context, context.CancelCauseFunc){
	"package context": context.WithCancelCause,
	"this package": func(parent context.Context) (context.Context, context.CancelCauseFunc) {
		c := WithCause(parent)
		return c, c.Cancel
	},
}

// ends are the ways in which a context ends, given itself and its parent.
var ends = map[string]struct {
	end       func(parent, itself context.CancelCauseFunc)
	err       error
	wantCause error
}{
	"with its parent":             {func(parent, _ context.CancelCauseFunc) { parent(errGone) }, context.Canceled, errGone},
	"with its parent's deadline":  {func(context.CancelCauseFunc, context.CancelCauseFunc) { time.Sleep(time.Hour) }, context.DeadlineExceeded, context.DeadlineExceeded},
	"by itself":                   {func(_, itself context.CancelCauseFunc) { itself(errIdle) }, context.Canceled, errIdle},
	"by itself without a cause":   {func(_, itself context.CancelCauseFunc) { itself(nil) }, context.Canceled, context.Canceled},
	"twice":                       {func(_, itself context.CancelCauseFunc) { itself(errIdle); itself(errGone) }, context.Canceled, errIdle},
	"by itself before its parent": {func(parent, itself context.CancelCauseFunc) { itself(errIdle); parent(errGone) }, context.Canceled, errIdle},
	"with its parent, then again": {func(parent, itself context.CancelCauseFunc) { parent(errGone); synctest.Wait(); itself(errIdle) }, context.Canceled, errGone},
}

// A context is like one of package context, whatever of it was used before.
func TestContext_LikeTheirs(t *testing.T) {
	uses := map[string]func(context.Context){
		"nothing": func(context.Context) {},
		"Done":    func(ctx context.Context) { ctx.Done() },
	}
	for maker, make := range makers {
		for how, c := range ends {
			for used, use := range uses {
				testkit.Virtual(t, maker+"/"+how+"/"+used, func(t *testing.T) {
					late, release := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
					defer release()
					parent, endParent := context.WithCancelCause(late)
					ctx, end := make(parent)
					use(ctx)
					var first, second atomic.Int64
					stopFirst := AfterFunc(ctx, func() { first.Add(1) })
					stopSecond := AfterFunc(ctx, func() { second.Add(1) })
					stopThird := AfterFunc(ctx, func() { t.Error("a function ran that was taken back") })
					if ctx.Err() != nil || context.Cause(ctx) != nil || !stopThird() || stopThird() {
						t.Errorf("before the end: %v, %v", ctx.Err(), context.Cause(ctx))
					}
					c.end(endParent, end)
					if ctx.Err() != c.err || context.Cause(ctx) != c.wantCause {
						t.Errorf("at once: %v, %v", ctx.Err(), context.Cause(ctx))
					}
					synctest.Wait()
					<-ctx.Done()
					if first.Load() != 1 || second.Load() != 1 || stopFirst() || stopSecond() {
						t.Errorf("the functions ran %d and %d times", first.Load(), second.Load())
					}
					if ctx.Err() != c.err || context.Cause(ctx) != c.wantCause || ctx.Value(key{}) != "value" {
						t.Errorf("%v, %v, %v", ctx.Err(), context.Cause(ctx), ctx.Value(key{}))
					}
					if at, ok := ctx.Deadline(); !ok || !at.Equal(deadlineOf(late)) {
						t.Errorf("deadline %v", at)
					}
					var behind atomic.Bool
					stop := AfterFunc(ctx, func() { behind.Store(true) })
					synctest.Wait()
					if !behind.Load() || stop() {
						t.Error("a function that came after the end did not run at once")
					}
					child, release := context.WithCancel(ctx)
					defer release()
					if child.Err() != c.err || context.Cause(child) != c.wantCause {
						t.Errorf("a child: %v, %v", child.Err(), context.Cause(child))
					}
					end(nil)
				})
			}
		}
	}
}

func deadlineOf(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// Children of package context end with the context, and for its cause.
func TestContext_Children(t *testing.T) {
	for maker, make := range makers {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := make(t.Context())
			child, release := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
			defer release()
			end(errIdle)
			<-child.Done()
			if child.Err() != context.Canceled || context.Cause(child) != errIdle {
				t.Errorf("%s: %v, %v", maker, child.Err(), context.Cause(child))
			}
		})
	}
}

// With its parent a context ends at once, and for children as it did.
//
// Seen to fail with: a full context that does not end before the function has run by which its parent tells.
func TestContext_AtOnce(t *testing.T) {
	for maker, make := range makers {
		synctest.Test(t, func(t *testing.T) {
			late, release := context.WithTimeout(t.Context(), time.Minute)
			defer release()
			parent, endParent := context.WithCancelCause(late)
			ctx, end := make(parent)
			ctx.Done()
			endParent(errGone)
			select {
			case <-ctx.Done():
			default:
				t.Errorf("%s is not done", maker)
			}
			if cause := context.Cause(ctx); cause != errGone {
				t.Errorf("%s: %v", maker, cause)
			}
			end(nil)

			ctx, end = make(late)
			child, releaseChild := context.WithCancel(ctx)
			defer releaseChild()
			<-child.Done()
			if child.Err() != context.DeadlineExceeded || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("%s: at the deadline %v, a child %v", maker, ctx.Err(), child.Err())
			}
			end(nil)
		})
	}
}

// A function that was taken back leaves room for another one, of which the first's stop knows nothing.
func TestAfterFunc_Room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := WithCause(t.Context())
		stopFirst := c.AfterFunc(func() { t.Error("it was taken back") })
		ran := false
		if !stopFirst() {
			t.Error("it ran already")
		}
		stop := c.AfterFunc(func() { ran = true })
		if stopFirst() {
			t.Error("it was taken back twice")
		}
		if c.full != nil {
			t.Error("there was no room")
		}
		c.Cancel(nil)
		synctest.Wait()
		if !ran || stop() {
			t.Error("the second did not run")
		}
	})
}

// counting is a context that counts who listens to it.
type counting struct {
	context.Context
	by int
}

// AfterFunc is found by AfterFunc.
func (c *counting) AfterFunc(func()) func() bool {
	c.by++
	return func() bool { c.by--; return true }
}

// A context listens to its parent from when somebody listens to it until its end.
func TestContext_ListensLate(t *testing.T) {
	parent := &counting{Context: t.Context()}
	c := WithCause(parent)
	if c.Err() != nil || parent.by != 0 {
		t.Errorf("%d listen for nobody", parent.by)
	}
	for range 2 {
		stop := AfterFunc(c, func() {})
		if stop(); parent.by != 1 {
			t.Errorf("%d listen", parent.by)
		}
	}
	c.Cancel(errGone)
	if AfterFunc(c, func() {}); parent.by != 0 {
		t.Errorf("%d listen after the end", parent.by)
	}
}

// The parent's end comes first, also if nobody has listened to it.
func TestContext_EndedUnheard(t *testing.T) {
	parent, end := context.WithCancelCause(t.Context())
	c := WithCause(parent)
	end(errGone)
	c.Cancel(errIdle)
	if context.Cause(c) != errGone {
		t.Errorf("it ended because %v", context.Cause(c))
	}
}

// Either the function runs or it is taken back, however the ends of the context and of its parent race with that.
func TestContext_Races(t *testing.T) {
	for range 200 {
		parent, endParent := context.WithCancelCause(context.Background())
		c := WithCause(parent)
		var ran atomic.Int64
		done := make(chan struct{})
		var all sync.WaitGroup
		stop := c.AfterFunc(func() { ran.Add(1); close(done) })
		stopped := false
		all.Go(func() { endParent(errGone) })
		all.Go(func() { c.Cancel(errIdle) })
		all.Go(func() { stopped = stop() })
		all.Go(func() { _ = c.Err(); _ = context.Cause(c); <-c.Done() })
		all.Wait()
		if !stopped {
			<-done
		}
		if cause := context.Cause(c); stopped == (ran.Load() == 1) || cause != errGone && cause != errIdle {
			t.Fatalf("stopped %v, ran %d times, %v", stopped, ran.Load(), cause)
		}
	}
}

// A context whose end one function is to know makes nothing else.
func TestContext_Allocates(t *testing.T) {
	f := func() {}
	if n := testkit.Allocs(t, 100, func() {
		c := WithCause(context.Background())
		stop := AfterFunc(c, f)
		stop()
		c.Cancel(nil)
	}); n > 6 {
		t.Errorf("%v allocations", n)
	}
}
