package escrow

import (
	"testing"
	"time"
)

// A limit that changes under a flood changes what passes, and nothing else: what was
// used stays used, who waits waits on, and shares are kept. Catches: a new ledger
// for the new limit (used falls to 0); the pace left as it was (a lowered limit is
// exceeded); costs not weighed anew (a call above the new limit blocks for ever).
func TestConfigureUnderLoad(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, RPM: 6000, Burst: 10 * time.Second, MaxQueue: 1000}, 2000, 1000)
	for _, p := range w.tenants {
		p.workers = 16
	}
	w.run(3 * Window)
	for _, limit := range []int64{60_000, 1_200_000, 600_000} {
		before := w.pool.State(w.now)
		w.pool.Configure(w.now, Config{TPM: limit, RPM: 6000, Burst: 10 * time.Second, MaxQueue: 1000})
		if after := w.pool.State(w.now); after.Axes[Tokens].Used != before.Axes[Tokens].Used || after.Waiting != before.Waiting {
			t.Fatalf("limit %d: %d used and %d waiting, before it was %d and %d", limit,
				after.Axes[Tokens].Used, after.Waiting, before.Axes[Tokens].Used, before.Waiting)
		}
		if err := w.pool.Check(); err != nil {
			t.Fatal(err)
		}
		w.run(2 * Window)
		from := w.now
		w.log = nil
		w.run(5 * Window)
		got := w.received(from)
		least := 0.99
		if limit < 100_000 { // calls of up to a seventh of it
			least = 0.94
		}
		util := (got[0] + got[1]) / 5 / float64(limit)
		t.Logf("limit %d: %.4f of it used, shares %.3f to 1", limit, util, got[0]/got[1])
		if util < least || w.rollingMax() > limit {
			t.Errorf("limit %d: %.4f of it used, the fullest minute has %d", limit, util, w.rollingMax())
		}
		if r := got[0] / got[1]; r < 1.8 || r > 2.2 {
			t.Errorf("limit %d: shares of %.3f to 1, want 2 to 1", limit, r)
		}
	}
}

// Another rule of accounting begins with what was used under the old one, and with
// all that running calls may still take. Catches: a fresh axis that inherits
// nothing; a running call that settles in books which it is not in.
func TestConfigureAccounting(t *testing.T) {
	for from := AdmitMax; from <= Settled; from++ {
		for to := AdmitMax; to <= Settled; to++ {
			p := New(t0, Config{TPM: 60_000, Burst: time.Minute, Accounting: from, MaxQueue: 10})
			leaf := p.Add(Root, Node{Weight: WeightOne})
			now := t0.Add(5 * time.Minute)
			done, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{10_000, 1}})
			p.Settle(now, done, Cost{8000, 1})
			runs, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{20_000, 1}, Input: 5000, Speed: 100})
			now = now.Add(10 * time.Second)
			p.Configure(now, Config{TPM: 60_000, Burst: time.Minute, Accounting: to, MaxQueue: 10})
			used := p.State(now).Axes[Tokens].Used
			if from != to && (used < 28_000 || used > 28_050) {
				t.Errorf("%d → %d: %d tokens count, want 8000 used and 20000 that may come", from, to, used)
			}
			if !p.Settle(now, runs, Cost{6000, 1}) {
				t.Errorf("%d → %d: the running call is gone", from, to)
			}
			if err := p.Check(); err != nil {
				t.Errorf("%d → %d: %v", from, to, err)
			}
			now = now.Add(2 * Window)
			if p.State(now).Axes[Tokens].Used != 0 {
				t.Errorf("%d → %d: something counts for ever", from, to)
			}
		}
	}
}

// What waits, and would never fit a limit that was lowered, still goes in its turn.
func TestConfigureLetsLargeCallsGo(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{50_000, 1}})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{50_000, 1}, MaxWait: time.Hour})
	if ans.Verdict != Queued {
		t.Fatal(ans)
	}
	p.Configure(t0, Config{TPM: 6000, MaxQueue: 10})
	for now := t0; now.Before(t0.Add(15 * Window)); now = now.Add(time.Second) {
		if out := p.Pump(now, nil); len(out) == 1 && out[0] == h {
			return
		}
	}
	t.Error("a call that waited when the limit was lowered never went")
}
