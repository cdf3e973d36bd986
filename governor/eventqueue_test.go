package governor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// keyhole is an Observer that tries all locks of its governor.
type keyhole struct {
	g     *Governor
	kinds map[EventKind]bool
	kept  *memory
	held  []string // the locks that were not free, with the event that came then, and endings of calls that had not ended
}

func (k *keyhole) Observe(e Event) {
	k.kinds[e.Kind] = true
	if (e.Ending != 0) != (e.Kind == EventEnded) {
		k.held = append(k.held, "an ending: "+e.Ending.String()+" at "+e.Kind.String())
	}
	if k.g == nil {
		return // it is not made yet
	}
	if e.Kind == EventEnded && !slices.ContainsFunc(k.kept.records, func(r record.Record) bool { return r.Kind == record.Ended }) {
		k.held = append(k.held, "an end that is not written down")
	}
	k.try(e, "applying", &k.g.applying)
	k.try(e, "eventQueue", &k.g.events.mu)
	k.try(e, "governor", &k.g.mu)
	for _, p := range k.g.pools {
		k.try(e, "measure", &p.measure.mu)
	}
}

func (k *keyhole) try(e Event, name string, mu *sync.Mutex) {
	if !mu.TryLock() {
		k.held = append(k.held, name+" at "+e.Kind.String())
		return
	}
	mu.Unlock()
}

// No lock is held while an Observer is called, whatever happens.
func TestOutbox_NoLockIsHeld(t *testing.T) {
	for name, recorded := range map[string]bool{"detailed": false, "recorded": true} {
		t.Run(name, func(t *testing.T) {
			k := &keyhole{kinds: map[EventKind]bool{}, kept: &memory{left: 100}}
			cfg := Config{
				Pools:    []Pool{{Name: "p", RPM: 600, Concurrency: 2}},
				Tenants:  []Tenant{{Name: "a", Weight: 1, TPM: 1000}},
				Observer: k, Detailed: true, Recorded: recorded, Journal: k.kept,
			}
			g := must(t, cfg)
			k.g = g
			req := Request{Tenant: "a", Pool: "p", Input: 10, Output: 900, Stream: true}
			l := admitted(t, g, req)
			if _, rej := g.Acquire(t.Context(), req); rej == nil {
				t.Fatal("a call over the limit goes")
			}
			l.Progress(5)
			l.Retried()
			l.Overloaded()
			g.Throttle("p", []Cut{{Part: 1, Until: time.Now().Add(time.Hour)}})
			testkit.OK(t, g.Apply(cfg))
			l.Settle(Usage{})
			g.Drain()
			if len(k.held) > 0 {
				t.Errorf("locks are held: %q", k.held)
			}
			for kind := EventAdmitted; kind <= EventRetried; kind++ {
				if !k.kinds[kind] && kind != EventLeft {
					t.Errorf("%v was not tried", kind)
				}
			}
		})
	}
}

// While an Observer is slow, those who queue behind it wait, and the others go on.
func TestOutbox_ASlowObserverStopsNoPool(t *testing.T) {
	in := make(chan struct{})
	out := make(chan struct{})
	g := must(t, Config{
		Pools:   []Pool{{Name: "p", RPM: 600}},
		Tenants: []Tenant{{Name: "a", Weight: 1}},
		Observer: observes(func(Event) {
			in <- struct{}{}
			<-out
		}),
	})
	throttled := make(chan struct{})
	go func() {
		g.Throttle("p", []Cut{{Part: Whole / 2, Until: time.Now().Add(time.Hour)}})
		close(throttled)
	}()
	<-in
	if part := g.State().Pools[0].Part; part != Whole/2 {
		t.Errorf("the pool's part is %d", part)
	}
	close(out)
	<-throttled
}

// Whoever queues them, events are delivered once each and in the order in which they were queued,
// and before deliver returns.
func TestOutbox_InOrder(t *testing.T) {
	const goroutines, each = 8, 500
	var got, want []uint64
	o := newEventQueue(observes(func(e Event) { got = append(got, e.Call) }))
	var mu sync.Mutex // the lock under which events happen
	testkit.AtOnce(goroutines, func(_ int) {
		for range each {
			mu.Lock()
			n := uint64(len(want))
			want = append(want, n)
			o.add(Event{Call: n})
			mu.Unlock()
			o.deliver()
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d events were delivered, or not in order", len(got), len(want))
	}
	if len(o.queue) > 0 || o.pending.Load() != 0 || cap(o.queue)+cap(o.batch) > 4*goroutines {
		t.Errorf("%d events are left, %d pending, in room for %d", len(o.queue), o.pending.Load(), cap(o.queue)+cap(o.batch))
	}
}

// An event that happens under no lock comes after those that were queued before it.
func TestOutbox_AnEndComesAfterItsProgress(t *testing.T) {
	log := &told{since: time.Unix(0, 0)}
	g := must(t, Config{
		Pools:    []Pool{{Name: "p", RPM: 600}},
		Tenants:  []Tenant{{Name: "a", Weight: 1}},
		Observer: log, Detailed: true,
	})
	l := admitted(t, g, Request{Tenant: "a", Pool: "p"})
	g.queueDetail(Event{Kind: EventProgress, Call: 1}) // by a goroutine that has not delivered it yet
	l.Settle(Usage{})
	last := log.list[len(log.list)-2:]
	if last[0][:8] != "progress" || last[1][:5] != "ended" {
		t.Errorf("the last events are %q", last)
	}
}

// A queue that has room already takes no memory.
func TestOutbox_AllocatesNothing(t *testing.T) {
	o := newEventQueue(observes(func(Event) {}))
	e := Event{Kind: EventProgress}
	if n := testkit.Allocs(t, 100, func() { o.add(e); o.deliver() }); n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// Observers may keep events for long, so nothing in them leads to what a caller has of its call.
func TestObserver_CannotReachTheCall(t *testing.T) {
	wait := time.Second
	req := Request{ID: "r", Interrupt: InterruptFunc(func(error) {}), MaxWait: &wait}
	got := req.Record()
	wait = 0 // whose memory another call has now
	if got.Interrupt != nil || got.ID != "r" || *got.MaxWait != time.Second || req.Interrupt == nil {
		t.Errorf("observers get %+v, waiting for %v", got, *got.MaxWait)
	}
}

// A governor that is Detailed tells of each call all that it is told, in order, and decides as if
// nobody listened: where limits are shared too.
func TestDetailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &told{since: time.Now()}
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 9}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: 10 * time.Second}},
			Shared:  true, SharedLimits: true, Observer: log, Detailed: true,
		})
		ask := func(ctx context.Context) (Lease, *Refusal) {
			return Refused(g.Acquire(ctx, Request{Tenant: "a", Pool: "p"}))
		}
		l, rej := ask(t.Context())
		if rej != nil {
			t.Fatal(rej)
		}
		gone, leaves := testkit.Leaving(t.Context(), 20*time.Millisecond)
		defer leaves()
		if _, rej := ask(gone); rej == nil || rej.Reason != ReasonCancelled {
			t.Errorf("who went away is told %v", rej)
		}
		l.Progress(7)
		l.Retried()
		time.Sleep(10 * time.Millisecond)
		l.Overloaded()
		l.Settle(Usage{})
		l.Settle(Usage{})
		g.Drain()
		_, _ = ask(t.Context())
		want := []string{
			"asked 1 0", "admitted 1 0", "asked 2 0", "left 2 20", "refused 2 20", "progress 1 20", "retried 1 20", "overloaded 1 30", "ended 1 30",
			"drained 0 30", "asked 3 30", "refused 3 30",
		}
		if !slices.Equal(log.list, want) {
			t.Errorf("it was told\n%q\nwant\n%q", log.list, want)
		}
	})
}

// observes is a function as an Observer.
type observes func(Event)

func (f observes) Observe(e Event) { f(e) }

// What a governor starts with is told first, but for what it remembers of limits that others keep.
func TestDetailed_Start(t *testing.T) {
	for _, shared := range []bool{false, true} {
		var first *Event
		log := observes(func(e Event) {
			if first == nil {
				first = &e
			}
		})
		must(t, Config{Pools: []Pool{{Name: "p", RPM: 9}}, Shared: shared, Past: record.NewPast(time.Now(), time.UTC), Observer: log, Detailed: true})
		if first == nil || first.Kind != EventStarted || first.Config.Shared != shared || (first.Past != nil) == shared {
			t.Errorf("shared %v: the first is %+v", shared, first)
		}
	}
}

// Of a pool that is shared nobody has what is withheld.
func TestPool_Together(t *testing.T) {
	p := Pool{Name: "p", TPM: 1000, Concurrency: 10, InteractiveReserve: 9, MinConcurrency: 10, OnLoss: LossLocal, LocalPPM: 200_000}
	if got := p.Together(); got.TPM != 800 || got.RPM != 0 || got.Concurrency != 8 || got.InteractiveReserve != 7 || got.MinConcurrency != 8 {
		t.Errorf("got %+v", got)
	}
	p.OnLoss = LossClosed
	if got := p.Together(); got.TPM != 1000 || got.Concurrency != 10 || got.InteractiveReserve != 9 {
		t.Errorf("where nothing is withheld, got %+v", got)
	}
}
