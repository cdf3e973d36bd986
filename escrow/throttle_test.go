package escrow

import (
	"testing"
	"time"
)

// Before the end of a hold nothing goes, and who asks is told when; then those who
// waited go in fair order, at the pool's rate and not with a burst. Catches: a hold
// that Next does not know (nobody is ever dispatched); waits that are told without
// it; a burst behind it, which the provider refuses again.
func TestThrottle_Hold(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, RPM: 60_000, Burst: 30 * time.Second, MaxQueue: 1000})
	a := p.Add(Root, Node{Weight: WeightOne})
	b := p.Add(Root, Node{Weight: WeightOne})
	now := t0.Add(time.Hour) // its burst is full
	until := now.Add(20 * time.Second)
	p.Throttle(now, WholePace, until)
	if _, ans := p.Offer(now, Call{Leaf: a, Most: Cost{100, 1}}); ans.Verdict != TooLong || ans.Wait != 20*time.Second {
		t.Fatalf("who does not wait is answered %+v, want TooLong for 20 s", ans)
	}
	if _, ans := p.Offer(now, Call{Leaf: a, Most: Cost{100, 1}, MaxWait: 10 * time.Second}); ans.Verdict != TooLong {
		t.Fatalf("who waits 10 s is answered %+v, want TooLong", ans)
	}
	for range 40 {
		for _, leaf := range []NodeID{a, a, a, b} { // a asks more often
			if _, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{100, 1}, MaxWait: time.Minute}); ans.Verdict != Queued {
				t.Fatalf("who waits a minute is answered %+v", ans)
			}
		}
	}
	if out := p.Pump(now, nil); len(out) != 0 {
		t.Fatalf("%d calls go during the hold", len(out))
	}
	if at, ok := p.Next(); !ok || !at.Equal(until) {
		t.Fatalf("Next is %v, %v; want the end of the hold", at, ok)
	}
	if out := p.Pump(until.Add(-time.Millisecond), nil); len(out) != 0 {
		t.Fatalf("%d calls go a moment before the hold ends", len(out))
	}
	out := p.Pump(until, nil)
	if len(out) != 10 { // one second of 60,000 a minute
		t.Fatalf("%d calls go at the end of the hold, want 10", len(out))
	}
	byLeaf := map[NodeID]int{}
	for _, h := range out {
		byLeaf[p.entries[h.Slot].leaf]++
	}
	if byLeaf[a] != 5 || byLeaf[b] != 5 {
		t.Errorf("of them %d are of the one and %d of the other, want 5 each", byLeaf[a], byLeaf[b])
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

// A pool of which a part is gone hands out the rest, by the same shares, and what was
// used stays used: nothing stalls until it has left the minute. Catches: a limit that
// is lowered instead (what the other part has used blocks for most of a minute); a
// part that is lost when the limit changes.
func TestThrottle_Part(t *testing.T) {
	cfg := Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}
	w := newWorld(t, 1, cfg, 2000, 1000)
	for _, p := range w.tenants {
		p.workers = 16
	}
	w.run(3 * Window)
	w.pool.Throttle(w.now, WholePace/4, time.Time{})
	for i, span := range []time.Duration{Window / 2, 2 * Window} {
		from := w.now
		w.run(span)
		got := w.received(from)
		if of := (got[0] + got[1]) / span.Minutes() / 150_000; of < 0.9 || of > 1.1 {
			t.Errorf("span %d: %.3f of a quarter of the limit is handed out", i, of)
		}
		if r := got[0] / got[1]; r < 1.8 || r > 2.2 {
			t.Errorf("span %d: shares of %.3f to 1, want 2 to 1", i, r)
		}
	}
	cfg.TPM = 1_200_000
	w.pool.Configure(w.now, cfg)
	w.run(Window)
	from := w.now
	w.run(2 * Window)
	if got := w.received(from); (got[0]+got[1])/2 < 270_000 || (got[0]+got[1])/2 > 330_000 {
		t.Errorf("with twice the limit %.0f a minute is handed out, want 300,000", (got[0]+got[1])/2)
	}
	w.pool.Throttle(w.now, WholePace, time.Time{})
	w.run(Window)
	from = w.now
	w.run(2 * Window)
	if got := w.received(from); (got[0]+got[1])/2 < 1_150_000 || w.rollingMax() > 1_200_000 {
		t.Errorf("the whole again: %.0f a minute, the fullest minute has %d", (got[0]+got[1])/2, w.rollingMax())
	}
}
