package governor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// A governor that is Detailed tells of each call all that it is told, in order, and decides as if
// nobody listened: where limits are shared too.
func TestDetailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &told{since: time.Now()}
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 9}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: 10 * time.Second}},
			Shared:  true, SharedLimits: true, Observer: log, Detailed: true,
		})
		ask := func(ctx context.Context) (Lease, *Rejection) {
			return Rejected(g.Acquire(ctx, Request{Tenant: "a", Pool: "p"}))
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
		must(t, Config{Pools: []Pool{{Name: "p", RPM: 9}}, Shared: shared, Past: NewPast(time.Now(), time.UTC), Observer: log, Detailed: true})
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
