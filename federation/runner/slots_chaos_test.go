package runner_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestSlots_Chaos: whoever is cut off, dies, ends or begins, whatever limit a reload brings, and if
// the store forgets, what runs at once, in those too that are cut off or dead, is within the limit.
func TestSlots_Chaos(t *testing.T) {
	for seed := range uint64(testkit.Rounds(1, 12)) {
		synctest.Test(t, func(t *testing.T) { runRiot(t, seed) })
	}
}

// riot is a fleet to which things happen.
type riot struct {
	*fleet
	edit   func(*governor.Pool)
	end    time.Time
	group  sync.WaitGroup
	live   []*berth
	quit   map[*berth]chan struct{} // closed when nobody asks there any more
	asking map[*berth]*sync.WaitGroup
}

func runRiot(t *testing.T, seed uint64) {
	f := newFleet(t, 20)
	f.rng = rand.New(rand.NewPCG(seed, 9))
	w := &riot{fleet: f, end: time.Now().Add(4 * time.Minute), quit: map[*berth]chan struct{}{}, asking: map[*berth]*sync.WaitGroup{}}
	w.edit = func(p *governor.Pool) {
		p.Concurrency = 20
		if seed%3 == 1 {
			p.OnLoss = governor.LossLocal
			p.LocalPPM = 300_000
			p.ExpectNodes = 4
		}
		if seed%3 == 2 {
			p.InteractiveReserve = 5
		}
	}
	for range 3 {
		w.begin()
	}
	for time.Now().Before(w.end) {
		time.Sleep(time.Second + f.random(6*time.Second))
		b := w.live[int(f.random(time.Duration(len(w.live))))]
		switch f.random(6) {
		case 0, 1: // it is cut off for a while
			b.way.cut.Store(true)
			time.AfterFunc(f.random(8*time.Second), func() { b.way.cut.Store(false) })
		case 2: // it dies, and what it sent runs on; another begins
			b.way.cut.Store(true)
			w.die(b)
			w.begin()
		case 3: // it ends in order, and another begins
			w.die(b)
			w.asking[b].Wait()
			b.way.cut.Store(false)
			b.stop()
			w.begin()
		case 4: // a reload lowers the limit, and raises it again
			for _, x := range w.live {
				cfg := f.config(w.edit)
				cfg.Pools[0].Concurrency = 8
				if err := x.Apply(cfg); err != nil {
					t.Error(err)
				}
				time.Sleep(f.random(3 * time.Second))
			}
			for _, x := range w.live {
				if err := x.Apply(f.config(w.edit)); err != nil {
					t.Error(err)
				}
				time.Sleep(f.random(3 * time.Second))
			}
		case 5: // the store forgets all, when all that run can tell it
			for _, x := range w.live {
				x.way.cut.Store(false)
			}
			time.Sleep(10 * time.Second)
			fresh := memory.New(memory.Config{Fresh: true})
			for _, x := range f.berths { // also those at which nobody asks any more
				x.way.parts.Store(fresh)
			}
			f.parts = fresh
			time.Sleep(5 * time.Second)
		}
	}
	for _, asking := range w.asking {
		asking.Wait()
	}
	w.group.Wait()
	used := f.seen().busy.Seconds() / (4 * 60 * 20)
	t.Logf("seed %d: at most %d of 20, %.0f %% used, refused %v", seed, f.seen().most, 100*used, f.seen().refused)
	if f.safe(); used < 0.25 || f.seen().most < 14 {
		t.Errorf("seed %d shows little: %d at once, %.0f %% used", seed, f.seen().most, 100*used)
	}
	for _, b := range f.berths {
		b.way.cut.Store(false)
	}
}

// begin begins a gateway, with callers.
func (w *riot) begin() {
	b := w.join(w.config(w.edit))
	quit := make(chan struct{})
	asking := &sync.WaitGroup{}
	w.quit[b] = quit
	w.asking[b] = asking
	w.live = append(w.live, b)
	for i := range 16 {
		asking.Go(func() {
			for time.Now().Before(w.end) {
				select {
				case <-quit:
					return
				default:
				}
				if w.call(b, []string{"a", "b", "now"}[i%3], i%5 == 0, 500*time.Millisecond+w.random(time.Second)) != nil {
					time.Sleep(w.random(time.Second))
				}
			}
		})
	}
}

// die has nobody ask a gateway any more.
func (w *riot) die(b *berth) {
	close(w.quit[b])
	for i, x := range w.live {
		if x == b {
			w.live = append(w.live[:i:i], w.live[i+1:]...)
		}
	}
}
