package runner_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// settled is one pool of which calls count when they end.
func settled() governor.Config {
	return governor.Config{
		Shared:  true,
		Pools:   []governor.Pool{{Name: "p", TPM: limit, Burst: 10 * time.Second, MaxQueue: 100, Accounting: escrow.Settled}},
		Tenants: []governor.Tenant{{Name: "a", Weight: escrow.WeightOne, MaxWait: 10 * time.Second}},
	}
}

// embedder is a process that ends its streams when they count with nobody else any more.
type embedder struct {
	gov       *governor.Governor
	run       *runner.Runner
	net       *network
	ended     atomic.Int64
	mu        sync.Mutex
	uncounted []lapse // guarded by mu
}

// lapse is what it was told, and when.
type lapse struct {
	after time.Duration
	cause error
}

func newEmbedder(t *testing.T, w *world, store runner.Store, instance string) *embedder {
	gov := testkit.Must(governor.New(settled()))(t)
	began := time.Now()
	e := &embedder{gov: gov, net: &network{Store: store, delay: time.Millisecond}}
	e.run = runner.New(runner.Config{
		Name: "n", Instance: instance, Store: e.net, Pools: poolsOf(gov),
		Uncounted: func(pool string, cause error) {
			e.mu.Lock()
			e.uncounted = append(e.uncounted, lapse{time.Since(began), cause})
			e.mu.Unlock()
			gov.Interrupt(pool, cause)
		},
	})
	w.group.Go(func() { _ = e.run.Run(w.ctx) })
	<-e.run.First()
	return e
}

// stream is a call that goes on until it is cut.
func (e *embedder) stream(t *testing.T, w *world) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	l, rej := governor.Rejected(e.gov.Acquire(ctx, governor.Request{Tenant: "a", Pool: "p", Input: 100, Output: 100, Stream: true, Interrupt: governor.InterruptFunc(cancel)}))
	if rej != nil {
		t.Error(rej)
		return
	}
	w.group.Go(func() {
		<-ctx.Done()
		if l.Break(governor.Usage{Input: 100, Output: 50}) && context.Cause(ctx) != context.Canceled {
			e.ended.Add(1)
		}
	})
}

// wants is how many streams were cut, and what was told, a beat sooner or later.
func (e *embedder) wants(t *testing.T, when string, ended int64, told ...lapse) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended.Load() != ended || !slices.EqualFunc(e.uncounted, told, func(a, b lapse) bool {
		return a.cause == b.cause && (a.after-b.after).Abs() < 2*time.Second
	}) {
		t.Errorf("%s: %d streams were cut, want %d; %v was told, want %v", when, e.ended.Load(), ended, e.uncounted, told)
	}
}

// TestUncounted_Fenced: the streams of a process that was fenced go on as long as they count
// with others, and are then ended by who wants that.
func TestUncounted_Fenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		old := newEmbedder(t, w, store, "old")
		for range 20 {
			old.stream(t, w)
		}
		time.Sleep(100 * time.Second)
		old.wants(t, "all is well", 0)
		young := newEmbedder(t, w, store, "young")
		time.Sleep(58 * time.Second)
		if !old.run.Fenced() {
			t.Fatal("it is not fenced")
		}
		old.wants(t, "58 s after it was fenced", 0)
		time.Sleep(3 * time.Second)
		old.wants(t, "61 s after it was fenced", 20, lapse{160 * time.Second, runner.ErrFenced})
		time.Sleep(5 * time.Minute)
		old.wants(t, "minutes after it was fenced", 20, lapse{160 * time.Second, runner.ErrFenced})
		young.wants(t, "minutes after it came", 0)
	})
}

// TestUncounted_CutOff: so are those of a process that is cut off for as long; once each time,
// and never where others hear of it in between.
func TestUncounted_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		e := newEmbedder(t, w, store, "i")
		lose := func(d time.Duration) {
			e.stream(t, w)
			e.net.cut.Store(true)
			time.Sleep(d)
			e.net.cut.Store(false)
			time.Sleep(10 * time.Second)
		}
		lose(50 * time.Second)
		lose(50 * time.Second)
		e.wants(t, "twice cut off for 50 s", 0)
		lose(5 * time.Minute)
		first := lapse{3 * time.Minute, runner.ErrCutOff}
		e.wants(t, "cut off for minutes", 3, first)
		lose(70 * time.Second)
		e.wants(t, "cut off again", 4, first, lapse{490 * time.Second, runner.ErrCutOff})
	})
}

// TestUncounted_Held: until it is told, the store counts what runs: of a limit that one holds
// whole, another gets nothing.
func TestUncounted_Held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		old := newEmbedder(t, w, store, "old")
		const streams, each = 2000, 200
		for range streams {
			old.stream(t, w)
			time.Sleep(30 * time.Millisecond)
		}
		young := newEmbedder(t, w, store, "young")
		began := time.Now()
		admitted := int64(0)
		for old.ended.Load() == 0 && time.Since(began) < 2*time.Minute {
			l, rej := young.gov.Acquire(w.ctx, governor.Request{Tenant: "a", Pool: "p", Input: each})
			if rej == nil {
				admitted += each
				l.Settle(governor.Usage{Input: each})
			}
			time.Sleep(20 * time.Millisecond)
		}
		if admitted > limit-streams*each || admitted < (limit-streams*each)*9/10 {
			t.Errorf("beside streams that hold %d of %d another process was let have %d", streams*each, limit, admitted)
		}
		synctest.Wait()
		if n := old.ended.Load(); n != streams {
			t.Errorf("%d streams were cut, want %d", n, streams)
		}
	})
}
