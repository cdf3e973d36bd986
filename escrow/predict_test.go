package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Who is refused while nobody waits, and comes back when told, is served; and
// was not told to stay away for much longer than needed.
func TestRetryAfterIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			TPM:   rapid.SampledFrom([]int64{600, 30_000, 600_000}).Draw(t, "tpm"),
			RPM:   rapid.SampledFrom([]int64{0, 10, 3000}).Draw(t, "rpm"),
			Burst: time.Duration(rapid.IntRange(0, 60).Draw(t, "burst")) * time.Second,
		}
		p := New(t0, cfg)
		leaf := p.Add(Root, Node{Weight: WeightOne})
		now := t0
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(15*time.Second)).Draw(t, "gap")))
			c := Cost{rapid.Int64Range(1, cfg.TPM/2).Draw(t, "cost"), 1}
			h, ans := p.Offer(now, Call{Leaf: leaf, Most: c})
			if ans.Verdict == Admitted {
				p.Settle(now, h, Cost{rapid.Int64Range(0, c[Tokens]).Draw(t, "actual"), 1})
				continue
			}
			early := clonePool(p)
			if ans.Wait > 2*time.Second {
				if _, a := early.Offer(now.Add(ans.Wait*9/10-200*time.Millisecond), Call{Leaf: leaf, Most: c}); a.Verdict == Admitted {
					t.Fatalf("told to wait %v for %v, but it goes well before", ans.Wait, c)
				}
			}
			now = now.Add(ans.Wait)
			h, again := p.Offer(now, Call{Leaf: leaf, Most: c})
			if again.Verdict != Admitted {
				t.Fatalf("came back for %v when told, after %v, and was told to wait %v more", c, ans.Wait, again.Wait)
			}
			p.Settle(now, h, c)
		}
	})
}

// clonePool copies a pool on which nobody waits.
func clonePool(p *Pool) *Pool {
	c := *p
	c.nodes = append([]node(nil), p.nodes...)
	c.entries = append([]entry(nil), p.entries...)
	for k := range c.axes {
		a := &c.axes[k]
		if !a.on {
			continue
		}
		l := *p.axes[k].ledger
		l.slots = append([]int64(nil), l.slots...)
		a.ledger = &l
		a.pace.ring = &l
	}
	return &c
}

// TestSlotWait_IsDoubted: calls that are told to come back when a slot frees are sent away for as long as none has, if that is longer than calls ran
// so far: nobody knows when those end that hold their slots.
func TestSlotWait_IsDoubted(t *testing.T) {
	now := t0
	p := New(now, Config{Slots: 2, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: WeightOne})
	call := Call{Leaf: leaf, Most: Cost{1, 1}}
	offer := func() (Handle, Answer) { return p.Offer(now, call) }
	for range 50 { // calls run for a millisecond
		h, _ := offer()
		now = now.Add(time.Millisecond)
		p.Settle(now, h, Cost{1, 1})
	}
	first, _ := offer()
	offer()
	for _, c := range []struct{ after, least, most time.Duration }{
		{0, time.Millisecond, 100 * time.Millisecond},
		{2 * time.Second, 2 * time.Second, 2 * time.Second},
		{time.Hour, longestDoubt, longestDoubt},
	} {
		now = now.Add(c.after)
		if _, ans := offer(); ans.Verdict != TooLong || ans.Wait < c.least || ans.Wait > c.most {
			t.Errorf("after %s: %v, to come back in %s; %s to %s are right", c.after, ans.Verdict, ans.Wait, c.least, c.most)
		}
	}
	p.Settle(now, first, Cost{1, 1})
	p.Pump(now, nil)
	if _, ans := offer(); ans.Verdict != Admitted {
		t.Errorf("a slot is free: %+v", ans)
	}
}

// TestSettle_NothingButTime: a call that gives everything back owes the time in which it had a slot, however much it was expected to take.
func TestSettle_NothingButTime(t *testing.T) {
	for name, c := range map[string]struct {
		ran  time.Duration
		owes int64
	}{
		"at once":        {0, 0},
		"after a minute": {time.Minute, WholeMinute / 4},
	} {
		now := t0
		p := New(now, Config{Slots: 4, TPM: 1000, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		h := p.Force(now, Call{Leaf: leaf, Most: Cost{10, 1}}, true)
		now = now.Add(c.ran)
		p.Settle(now, h, Cost{})
		if got := p.Account(leaf).Received; got != c.owes {
			t.Errorf("%s: it owes %d, %d is right", name, got, c.owes)
		}
	}
}

// A call that finds no slot, because the pool is narrowed for the moment, is told to come back as soon as the
// slots that are expected suffice, not when those of the moment would.
func TestExpect_PromisesGoByTheSlotsThatThereSoonAre(t *testing.T) {
	for _, c := range []struct {
		narrow, expect int64
		waits          time.Duration // six calls run one after the other in so many slots, each for a second
	}{
		{narrow: 8, expect: 8, waits: 6 * time.Second / 8},
		{narrow: 0, expect: 8, waits: 6 * time.Second / 8},
		{narrow: 1, expect: 4, waits: 6 * time.Second / 4},
		{narrow: 4, expect: 0, waits: 6 * time.Second / 4},
	} {
		now := time.Unix(1e9, 0)
		p := New(now, Config{Slots: 8, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		call := Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: time.Hour}
		for range 100 { // so that a call's run is known
			h, _ := p.Offer(now, call)
			now = now.Add(time.Second)
			p.Settle(now, h, Cost{0, 1})
		}
		p.Narrow(0, BackgroundSlots{})
		for range 5 {
			p.Offer(now, call)
		}
		p.Narrow(c.narrow, BackgroundSlots{Most: c.narrow})
		p.Expect(c.expect)
		if got := p.slotWait(leaf).Round(time.Millisecond); got != c.waits.Round(time.Millisecond) {
			t.Errorf("narrowed to %d, with %d expected, the promise is %v, want %v", c.narrow, c.expect, got, c.waits)
		}
	}
}

// Of two pools that are told the same, one is looked at in between, again and again: its
// books, and what a call would meet. They decide the same. Seen to fail with a mean that
// Foretell keeps, and with a pace that is refreshed when it is first looked at after two
// minutes.
func TestToLookChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			TPM: 60_000, Slots: rapid.Int64Range(0, 4).Draw(t, "slots"), MaxQueue: 20, TicketWait: 5 * time.Second,
			Burst: 10 * time.Second, Accounting: Accounting(rapid.IntRange(0, 2).Draw(t, "accounting")),
		}
		now := time.Unix(1_000_000, 0)
		quiet := New(now, cfg)
		seen := New(now, cfg)
		var leaves []NodeID
		for range 6 {
			n := Node{Weight: WeightOne * Weight(rapid.IntRange(1, 4).Draw(t, "weight"))}
			leaves = append(leaves, quiet.Add(Root, n))
			seen.Add(Root, n)
		}
		call := func() Call {
			n := rapid.Int64Range(1, 4000).Draw(t, "tokens")
			return Call{
				Leaf: rapid.SampledFrom(leaves).Draw(t, "leaf"), Background: rapid.Bool().Draw(t, "background"), Most: Cost{n, 1}, Expect: n/2 + 1, Fair: n/2 + 1, Speed: 50,
				MaxWait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 5}).Draw(t, "wait")) * time.Second,
				Claim:   Claim{Key: rapid.Uint64Range(0, 3).Draw(t, "key")},
			}
		}
		var running []Handle
		for range rapid.IntRange(200, 600).Draw(t, "steps") {
			pause := rapid.SampledFrom([]time.Duration{
				0, 0, 0, 7 * time.Millisecond, 7 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 90 * time.Millisecond, 1300*time.Millisecond + 11, 20 * time.Second, 3 * time.Minute,
			}).Draw(t, "pause")
			for range rapid.IntRange(0, 2).Draw(t, "looks") {
				seen.State(now.Add(pause * time.Duration(rapid.IntRange(0, 10).Draw(t, "when")) / 10))
				seen.Foretell(now, call())
			}
			now = now.Add(pause)
			if len(running) > 0 && rapid.Bool().Draw(t, "end") {
				h := running[0]
				running = running[1:]
				took := rapid.Int64Range(0, 4000).Draw(t, "took")
				quiet.Settle(now, h, Cost{took, 1})
				seen.Settle(now, h, Cost{took, 1})
			} else {
				c := call()
				h, ans := quiet.Offer(now, c)
				g, also := seen.Offer(now, c)
				if h != g || ans != also {
					t.Fatalf("a call is answered %+v, and %+v where somebody has looked", ans, also)
				}
				if ans.Verdict == Admitted {
					running = append(running, h)
				}
			}
			out := quiet.Pump(now, nil)
			also := seen.Pump(now, nil)
			if len(out) != len(also) {
				t.Fatalf("%d calls go, and %d where somebody has looked", len(out), len(also))
			}
			running = append(running, out...)
			at, _ := quiet.Next()
			if other, _ := seen.Next(); !at.Equal(other) {
				t.Fatalf("the next goes at %v, and at %v where somebody has looked", at, other)
			}
		}
	})
}
