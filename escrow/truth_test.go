package escrow

import (
	"testing"
	"time"
)

// idlePool is a pool that has been idle long enough to hold its burst.
func idlePool(cfg Config, leaves int) (*Pool, time.Time) {
	p := New(t0, cfg)
	for range leaves {
		p.Add(Root, Node{Weight: WeightOne})
	}
	return p, t0.Add(5 * time.Minute)
}

// Two equal tenants whose calls take a twentieth of what they declare, for a
// second or for twenty. The one that returns to the other's flood receives as much
// as it: refunds of calls in flight do not pull the other's tag ahead of it.
func TestI3_ReturnAgainstRefunds(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Settled} {
		for _, took := range []int64{4096, 2000, 200} {
			for _, run := range []time.Duration{time.Second, 20 * time.Second} {
				got := returnAgainst(t, acc, took, run)
				if r := float64(got[1]) / float64(got[0]); r < 0.85 || r > 1.15 {
					t.Errorf("accounting %d, %d of 4096 taken in %v: the returning tenant received %.2f of the other's", acc, took, run, r)
				}
			}
		}
	}
}

// returnAgainst runs leaf 0 alone for five minutes and with leaf 1 for three, and
// says what each received in these three.
func returnAgainst(t *testing.T, acc Accounting, took int64, run time.Duration) (got [2]int64) {
	p, now := idlePool(Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000, Accounting: acc}, 2)
	type call struct {
		h    Handle
		leaf NodeID
		end  time.Time
	}
	var running []call
	leafOf := map[Handle]NodeID{}
	waiting := [2]int{}
	begin := func(h Handle, l NodeID) {
		running = append(running, call{h, l, now.Add(run)})
		got[l] += took
	}
	pump := func() {
		for _, h := range p.Pump(now, nil) {
			l := leafOf[h]
			delete(leafOf, h)
			waiting[l]--
			begin(h, l)
		}
	}
	back := now.Add(5 * time.Minute)
	for end := back.Add(3 * time.Minute); now.Before(end); now = now.Add(50 * time.Millisecond) {
		if now.Equal(back) {
			got = [2]int64{}
		}
		still := running[:0]
		for _, c := range running {
			if now.Before(c.end) {
				still = append(still, c)
			} else {
				p.Settle(now, c.h, Cost{took, 1})
			}
		}
		running = still
		pump()
		for l := range NodeID(2) {
			for waiting[l] < 16 && (l == 0 || !now.Before(back)) {
				h, ans := p.Offer(now, Call{Leaf: l + 1, Most: Cost{4096, 1}, Expect: took, Run: run, MaxWait: time.Hour})
				if ans.Verdict == Admitted {
					begin(h, l)
					continue
				}
				leafOf[h] = l
				waiting[l]++
				pump()
			}
		}
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return got
}

// A hundred idle tenants come at once, with equal tags. Who queues is served
// within its max_wait, give or take a tenth; the others are refused at once.
func TestI5_TiesAreCounted(t *testing.T) {
	p, now := idlePool(Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10_000}, 100)
	const maxWait = 5 * time.Second
	waiting := map[Handle]bool{}
	refused := 0
	for i := range 100 {
		h, ans := p.Offer(now, Call{Leaf: NodeID(i + 1), Most: Cost{8000, 1}, MaxWait: maxWait})
		switch ans.Verdict {
		case Queued:
			waiting[h] = true
		case TooLong:
			refused++
		}
		p.Pump(now, nil)
	}
	for end := now.Add(maxWait * 11 / 10); now.Before(end); now = now.Add(10 * time.Millisecond) {
		for _, h := range p.Pump(now, nil) {
			delete(waiting, h)
		}
	}
	if len(waiting) > 1 || refused < 70 {
		t.Errorf("%d of those who queued were not served in time, %d were refused at once", len(waiting), refused)
	}
}

// One call that takes five times the minute stops the pool until its debt has left
// the window, and not longer; and the time that others are told is true.
func TestDebtIsWaitedForOnce(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Production, Settled} {
		p, now := idlePool(Config{TPM: 30_000, Burst: 10 * time.Second, Accounting: acc, MaxQueue: 10}, 2)
		h, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{30_000, 1}, MaxWait: 0})
		if ans.Verdict != Admitted {
			t.Fatal(ans)
		}
		now = now.Add(time.Second)
		p.Settle(now, h, Cost{150_000, 1})
		_, ans = p.Offer(now, Call{Leaf: 2, Most: Cost{500, 1}, MaxWait: 0})
		if ans.Wait < 59*time.Second || ans.Wait > 2*time.Minute {
			t.Errorf("accounting %d: told to come back after %v", acc, ans.Wait)
		}
		if _, again := p.Offer(now.Add(ans.Wait), Call{Leaf: 2, Most: Cost{500, 1}}); again.Verdict != Admitted {
			t.Errorf("accounting %d: came back after %v as told and was told %v more", acc, ans.Wait, again.Wait)
		}
	}
}

// Calls that give back most of what they hold do not make others be refused for
// the minute that they will not take.
func TestPredictionKnowsRefunds(t *testing.T) {
	p, now := idlePool(Config{TPM: 60_000, Burst: time.Minute, MaxQueue: 100}, 1)
	fill := func() (held []Handle, ans Answer) {
		for {
			h, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{4096, 1}, Expect: 200, MaxWait: 10 * time.Second})
			if ans.Verdict != Admitted {
				if ans.Verdict == Queued {
					p.Cancel(now, h)
				}
				return held, ans
			}
			held = append(held, h)
		}
	}
	for range 3 { // three rounds of calls that run for a second
		held, _ := fill()
		now = now.Add(time.Second)
		for _, h := range held {
			p.Settle(now, h, Cost{200, 1})
		}
	}
	if _, ans := fill(); ans.Verdict != Queued || ans.Wait > 5*time.Second {
		t.Errorf("a call ready to wait 10 s, when all before it end within one: %+v", ans)
	}
}

func BenchmarkRefusal(b *testing.B) {
	p, now := idlePool(Config{TPM: 600_000, RPM: 6000, Burst: 10 * time.Second, MaxQueue: 10}, 1)
	for range 60 {
		h, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{10_000, 1}, MaxWait: 0})
		if ans.Verdict == Admitted {
			p.Settle(now, h, Cost{10_000, 1})
		}
		now = now.Add(time.Second)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{90_000, 1}, MaxWait: 0}); ans.Verdict != TooLong {
			b.Fatal(ans)
		}
	}
}

// A tenant that returns has no claim on the time that it was away.
func TestReturningIsNoCredit(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}, 1000, 1000)
	w.tenants[0].workers = 8
	w.run(5 * Window)
	w.tenants[1].workers = 8
	from := w.now
	w.run(30 * time.Second)
	got := w.received(from)
	if r := got[1] / got[0]; r < 0.9 || r > 1.1 {
		t.Errorf("in its first half minute the returning tenant received %.2f of the other's", r)
	}
}
