package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// rampTo is how long after a time some sites had a part of the limit for a second, for the
// first time.
func (w *world) rampTo(part float64, since time.Time, sites map[*site]bool) time.Duration {
	sum := int64(0)
	from := 0
	for i, u := range w.used {
		if sites[u.site] {
			sum += u.cost
		}
		for ; !w.used[from].at.After(u.at.Add(-time.Second)); from++ {
			if sites[w.used[from].site] {
				sum -= w.used[from].cost
			}
		}
		if u.at.Sub(since) >= time.Second && float64(sum) >= part*limit/60 && i > from {
			return u.at.Sub(since)
		}
	}
	return time.Hour
}

// TestRun_OneEightOne: one gateway becomes eight, and those one again. No rolling minute is
// above the limit, all of it is used but for what those held who went, and who comes has its
// part within seconds.
func TestRun_OneEightOne(t *testing.T) {
	testkit.Long(t, "simulates minutes of a fleet")
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		cfg := config(10 * time.Second)
		w := newWorldOf(t, store, cfg, 5*time.Millisecond)
		w.flood(90*time.Second, 40)
		came := map[*site]bool{}
		for i := range 7 {
			came[w.join(store, cfg, time.Duration(5+7*i)*time.Millisecond)] = true
		}
		eight := time.Now()
		w.flood(2*time.Minute, 12)
		ramp := w.rampTo(0.95*7/8, eight, came)
		used, _ := w.between(eight.Add(10*time.Second), eight.Add(2*time.Minute))
		t.Logf("from one to eight: the seven have their part after %v, and %.4f of the limit is used", ramp, float64(used)*60/110/limit)
		if ramp > 5*time.Second || used < limit*110/60*97/100 {
			t.Error("the ramp takes too long, or too little is used")
		}
		for s := range came {
			s.leave()
		}
		one := time.Now()
		w.floodAt(w.sites[:1], 2*time.Minute, 40)
		back := w.rampTo(0.95, one, map[*site]bool{w.sites[0]: true})
		used, _ = w.between(one.Add(10*time.Second), one.Add(2*time.Minute))
		t.Logf("from eight to one: it has the limit after %v, and %.4f of it is used; peak %.4f", back, float64(used)*60/110/limit, float64(w.peak())/limit)
		if back > 10*time.Second || used < limit*110/60*95/100 {
			t.Error("the ramp takes too long, or too little is used")
		}
		if w.peak() > limit {
			t.Errorf("a rolling minute used %d of %d", w.peak(), limit)
		}
	})
}

// TestRun_Reload: weights that change, at one gateway after the other, count from when all
// have them; a limit that is lowered at one of them counts for all.
func TestRun_Reload(t *testing.T) {
	testkit.Long(t, "simulates minutes of a fleet")
	synctest.Test(t, func(t *testing.T) {
		cfg := config(10 * time.Second)
		w := newWorldOf(t, memory.New(memory.Config{Fresh: true}), cfg, time.Millisecond, 18*time.Millisecond, 35*time.Millisecond)
		began := time.Now()
		w.flood(90*time.Second, 12)
		if _, share := w.between(began.Add(30*time.Second), began.Add(90*time.Second)); share < 0.73 || share > 0.77 {
			t.Errorf("weights 1 and 3: the latter has %.3f", share)
		}
		apply := func(change func(*governor.Config)) {
			cfg.Tenants = append([]governor.Tenant(nil), cfg.Tenants...)
			cfg.Pools = append([]governor.Pool(nil), cfg.Pools...)
			change(&cfg)
			for i, s := range w.sites {
				time.AfterFunc(time.Duration(i)*2*time.Second, func() {
					if err := s.gov.Apply(cfg); err != nil {
						t.Error(err)
					}
				})
			}
		}
		apply(func(c *governor.Config) { c.Tenants[1].Weight = escrow.WeightOne })
		began = time.Now()
		w.flood(30*time.Second, 12)
		if used, share := w.between(began.Add(10*time.Second), began.Add(30*time.Second)); share < 0.48 || share > 0.52 || used < limit/3*95/100 {
			t.Errorf("weights 1 and 1, 6 s to 26 s after all have them: %d used, the latter has %.3f", used, share)
		}
		if w.peak() > limit {
			t.Errorf("a rolling minute used %d of %d", w.peak(), limit)
		}
		apply(func(c *governor.Config) { c.Pools[0].TPM = limit / 2 })
		began = time.Now()
		w.flood(150*time.Second, 12)
		if used, _ := w.between(began.Add(90*time.Second), began.Add(150*time.Second)); used > limit/2 || used < limit/2*95/100 {
			t.Errorf("with half the limit %d of %d are used in a minute", used, limit/2)
		}
	})
}

// TestRun_Removed: what one gateway's configuration has no more counts for others for as
// long as something of it counts, and not after that; and that its last beat failed means
// nothing then.
func TestRun_Removed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(10 * time.Second)
		w := newWorldOf(t, memory.New(memory.Config{Fresh: true}), cfg, time.Millisecond, time.Millisecond, time.Millisecond)
		w.flood(20*time.Second, 12)
		w.sites[1].net.down.Store(true)
		time.Sleep(3 * time.Second)
		without := cfg
		twice := cfg
		without.Pools = cfg.Pools[1:]
		twice.Pools = append([]governor.Pool(nil), cfg.Pools...)
		twice.Pools[0].TPM = 2 * limit
		for i, c := range []governor.Config{without, without, twice} {
			testkit.OK(t, w.sites[i].gov.Apply(c))
		}
		if w.sites[1].run.Up() {
			t.Error("what was used of the pool can be told to nobody, and the store is up")
		}
		time.Sleep(65 * time.Second)
		sent := w.sites[0].net.sent.Load()
		began := time.Now()
		w.floodAt(w.sites[2:], 2*time.Minute, 40)
		if n := w.sites[0].net.sent.Load() - sent; n > 0 {
			t.Errorf("%d beats for a pool that is gone for a minute", n)
		}
		if used, _ := w.between(began.Add(time.Minute), began.Add(2*time.Minute)); used < 2*limit*95/100 {
			t.Errorf("%d of %d are used in a minute: the limit of who has the pool no more holds", used, 2*limit)
		}
		if !w.sites[1].run.Up() {
			t.Error("the store is down for a pool that is gone")
		}
	})
}

// TestRun_Far: of a store that takes a second to answer it is known as well who shares it,
// and no beat is late for that.
func TestRun_Far(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Config{Fresh: true}), 10*time.Second, 500*time.Millisecond, time.Millisecond)
		w.floodAt(w.sites[:1], 10*time.Second, 12)
		sent := w.sites[0].net.sent.Load()
		w.floodAt(w.sites[:1], time.Minute, 12)
		if s, _ := w.sites[0].run.State("p"); len(s.View.Nodes) != 2 {
			t.Errorf("after a minute the far one knows of %d nodes", len(s.View.Nodes))
		}
		if n := w.sites[0].net.sent.Load() - sent; n < 50 {
			t.Errorf("%d beats in a minute", n)
		}
	})
}
