package escrow

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// ticketPool is a pool of which leaf 1 has used up the burst and queues four calls.
func ticketPool(t *testing.T) (p *Pool, now time.Time) {
	p = New(t0, Config{TPM: 600_000, MaxQueue: 100, TicketWait: 10 * time.Second})
	for range 3 {
		p.Add(Root, Node{Weight: 1})
	}
	now = t0.Add(time.Minute)
	p.Offer(now, Call{Leaf: 1, Most: Cost{10_000, 1}})
	for range 4 {
		if _, ans := p.Offer(now, Call{Leaf: 1, Most: Cost{5000, 1}, MaxWait: time.Hour}); ans.Verdict != Queued {
			t.Fatal(ans)
		}
	}
	return p, now
}

// ticket keeps a place for a call of leaf 2.
func ticket(t *testing.T, p *Pool, now time.Time, key uint64) Answer {
	t.Helper()
	_, ans := p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}, Claim: Claim{Key: key}})
	if !ans.Ticket {
		t.Fatal(ans)
	}
	return ans
}

// A kept place holds no capacity: with any number of them the others are served as
// if there were none; one call takes it; it ends six seconds after its promise.
//
// Catches: places that end late.
func TestI8_TicketsHoldNothing(t *testing.T) {
	served := func(tickets int) (n int) {
		p, now := ticketPool(t)
		for range tickets {
			p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}})
		}
		if got := p.Tickets(); got < tickets*3/4 && tickets > 0 {
			t.Fatalf("%d places are kept", got)
		}
		for range 300 {
			now = now.Add(10 * time.Millisecond)
			n += len(p.Pump(now, nil))
		}
		now = now.Add(ticketReach + TicketGrace)
		if p.State(now).Tickets != 0 {
			t.Errorf("I8: %d places are kept after their end", p.Tickets())
		}
		return n
	}
	if without, with := served(0), served(4); without != with {
		t.Errorf("I8: with kept places %d calls were served, without %d", with, without)
	}

	p, now := ticketPool(t)
	ans := ticket(t, p, now, 7)
	now = now.Add(ans.Wait)
	p.Offer(now, Call{Leaf: 1, Most: Cost{5000, 1}, MaxWait: time.Hour}) // somebody always waits
	_, back := p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}, Claim: Claim{Key: 7, Retry: RetryAgain}})
	if back.Verdict > Queued {
		t.Errorf("I8: came back in time and was told %+v", back)
	}
	if p.Tickets() != 0 {
		t.Error("I8: the place is still there")
	}
}

// Who comes early is told the rest of the time, and its place stays; who comes after
// the end has none; a second call under the same key gets none.
//
// Catches: one key with two places; the place of another leaf; an early return that loses the
// place; places that end late.
func TestI8_EarlyLateAndTwice(t *testing.T) {
	p, now := ticketPool(t)
	first := func() Answer {
		_, ans := p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}, Claim: Claim{Key: 7}})
		return ans
	}
	ans := first()
	if !ans.Ticket || ans.Wait < 100*time.Millisecond {
		t.Fatal(ans)
	}
	promised := now.Add(ans.Wait)
	now = now.Add(ans.Wait / 3)
	if early := first(); !early.Ticket || early.Verdict != TooLong || !now.Add(early.Wait).Equal(promised) || p.Tickets() != 1 {
		t.Errorf("early by %v: %+v, %d places", promised.Sub(now), early, p.Tickets())
	}
	if _, other := p.Offer(now, Call{Leaf: 3, Most: Cost{3000, 1}, Claim: Claim{Key: 7}}); other.Ticket {
		t.Error("two leaves have a place under one key")
	}
	now = promised.Add(TicketGrace)
	if p.State(now); p.Tickets() != 0 {
		t.Error("the place was not ended")
	}
	testkit.OK(t, p.Check())
}

// Nobody is told to stay away for a minute or more. Who comes back before a turn that is later is told the rest and keeps the place,
// and who comes a little early waits, even if it is not ready to.
func TestI8_LaterThanToldAndALittleEarly(t *testing.T) {
	for _, claim := range []Claim{{Key: 7}, {Retry: RetryFirst}} {
		p, now := ticketPool(t)
		p.Throttle(now, WholePace, now.Add(150*time.Second))
		offer := func() Answer {
			_, ans := p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}, Claim: claim})
			return ans
		}
		ans := offer()
		if !ans.Ticket || ans.Wait < 2*LongestTold {
			t.Fatal(ans)
		}
		promised := now.Add(ans.Wait)
		if claim.Key == 0 {
			claim.Retry = RetryAgain
		}
		for range 2 {
			now = now.Add(LongestTold)
			if ans := offer(); ans.Verdict != TooLong || !ans.Ticket || !now.Add(ans.Wait).Equal(promised) || p.Tickets() != 1 {
				t.Errorf("%+v, %v before its turn: %+v, %d places", claim, promised.Sub(now), ans, p.Tickets())
			}
		}
		now = promised.Add(-ticketEarly)
		if ans := offer(); ans.Verdict > Queued || p.Tickets() != 0 {
			t.Errorf("%+v, a little early: %+v, %d places", claim, ans, p.Tickets())
		}
		testkit.OK(t, p.Check())
	}
}

// A tenant that collects places and does not come, or comes with other calls, gets
// no more than if it had waited, and not more than its share.
//
// Catches: places that end late; virtual time that never moves; a lead that does not decay.
func TestI8_FarmingTicketsGainsNothing(t *testing.T) {
	for name, come := range map[string]func(k int) bool{
		"never comes for them":         func(int) bool { return false },
		"comes with others, at times":  func(k int) bool { return k%20 >= 10 },
		"comes with others, all along": func(int) bool { return true },
		"comes once in twenty seconds": func(k int) bool { return k%40 == 39 },
	} {
		w := newSim(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 400, TicketWait: 10 * time.Second})
		honest := w.leaf(Root, Node{Weight: 1}, 1000)
		honest.keep = 8
		farmer := w.leaf(Root, Node{Weight: 1}, 1000)
		farmer.call.Claim = Claim{Retry: RetryFirst}
		probe := &source{leaf: farmer.leaf, cost: 4000, call: Call{MaxWait: -1, Claim: Claim{Retry: RetryFirst}}}
		w.run(time.Minute)
		w.reset()
		for k := range 600 {
			for range 5 {
				w.offer(probe)
			}
			if come(k) {
				farmer.keep = 8
			} else {
				w.stop(farmer)
			}
			w.run(500 * time.Millisecond)
		}
		got := farmer.got + probe.got
		if r := float64(got) / float64(honest.got); r > 1.01 {
			t.Errorf("I8: who %s got %.3f of what an honest tenant did", name, r)
		} else {
			t.Logf("I8: who %s got %.3f of what an honest tenant did", name, r)
		}
	}
}

// Two tenants saturate a tree of three levels; a third asks, is told to wait, comes
// back when told, and is then not refused; it is served within ticket_wait, under
// all three accountings, beside floors.
//
// Catches: places that end late; plans that Progress and Settle do not lift.
func TestPromisesAreKept(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Production, Settled} {
		for _, floor := range []int64{0, 150_000} {
			w := newSim(t, uint64(acc), Config{TPM: 600_000, Accounting: acc, MaxQueue: 1000, TicketWait: 10 * time.Second})
			org := w.p.Add(Root, Node{Weight: 1})
			deep := w.p.Add(org, Node{Weight: 1})
			for _, s := range []*source{
				w.leaf(Root, Node{Weight: 1, Floor: floor}, 1500), w.leaf(org, Node{Weight: 1}, 900), w.leaf(deep, Node{Weight: 1}, 700),
			} {
				s.keep = 4
				s.call.Speed = 500
				s.call.Run = time.Second
			}
			asker := w.leaf(deep, Node{Weight: 1}, 1000)
			asker.call.Speed = 500
			w.run(2 * time.Minute)
			refused := 0
			kept := 0
			told := 0
			late := time.Duration(0)
			for key := range uint64(100) {
				asker.call.MaxWait = -1
				asker.call.Claim = Claim{Key: 1000 + key}
				for tries := 0; ; tries++ {
					ans := w.offer(asker)
					if ans.Verdict <= Queued {
						if tries > 0 {
							kept++
						}
						break
					}
					if tries > 0 {
						refused++
						break
					}
					told++
					if !ans.Ticket {
						t.Fatalf("accounting %d: no place is kept: %+v", acc, ans)
					}
					w.run(ans.Wait.Truncate(w.dt) + w.dt)
				}
				asker.worst = 0
				for asker.waiting > 0 {
					w.run(w.dt)
				}
				late = max(late, asker.worst)
			}
			what := fmt.Sprintf("accounting %d, floor %d: of %d told to come back %d were refused again; the longest second wait %v", acc, floor, told, refused, late)
			t.Log(what)
			if refused > 0 || told < 50 || late > 10*time.Second {
				t.Error(what)
			}
		}
	}
}

// A saturated pool of streams tells a call its true wait: one stream in forty ends
// each second, so a call that would be ready to wait for some seconds is not refused.
//
// Catches: plans that Settle does not lift.
func TestPromiseOfStreamsIsNotTooLong(t *testing.T) {
	w := newSim(t, 3, Config{TPM: 600_000, Accounting: Production, MaxQueue: 1000})
	long := w.leaf(Root, Node{Weight: 1}, 3000)
	long.keep = 3
	long.call.Speed = 60
	long.call.Input = 0
	long.run = func() time.Duration { return 50 * time.Second }
	w.run(5 * time.Minute)
	back := w.leaf(Root, Node{Weight: 1}, 3000)
	back.call.Speed = 60
	worst := time.Duration(0)
	for range 20 {
		ans := w.p.Forecast(w.now, Call{Leaf: back.leaf, Most: Cost{3000, 1}, Speed: 60})
		back.worst = 0
		back.keep = 0
		back.call.MaxWait = time.Hour
		w.offer(back)
		for back.waiting > 0 {
			w.run(w.dt)
		}
		worst = max(worst, ans.Wait)
		if ans.Wait > back.worst+10*time.Second {
			t.Errorf("told %v, served after %v", ans.Wait, back.worst)
		}
		w.run(time.Second)
	}
	t.Logf("told at most %v", worst)
}

// A place is kept for its call: what comes to the leaf in between moves its tag on,
// and the call that comes back takes it back, by no more than its own cost.
//
// Catches: a place that is lost to who came later; one that is worth more than its call.
func TestI8_ThePlaceIsTheCallsOwn(t *testing.T) {
	p, now := ticketPool(t)
	ans := ticket(t, p, now, 7)
	kept := p.nodes[2].finish
	for end := now.Add(ans.Wait + 5*time.Second); now.Before(end); now = now.Add(10 * time.Millisecond) {
		p.Pump(now, nil)
		if p.Waiting() < 4 {
			p.Offer(now, Call{Leaf: 1, Most: Cost{5000, 1}, MaxWait: time.Hour})
		}
	}
	p.axes[Tokens].pace.level = -1 // so that all wait
	p.Offer(now, Call{Leaf: 2, Most: Cost{100, 1}, MaxWait: time.Hour, Claim: Claim{Retry: RetryFirst}})
	passed := p.nodes[2].finish
	if passed <= kept {
		t.Fatal("nothing went past the place, so the test shows nothing")
	}
	p.Offer(now, Call{Leaf: 2, Most: Cost{3000, 1}, Claim: Claim{Key: 7}})
	own := p.nodes[2].over(p.virtualCost(Cost{3000, 1}, 0))
	if got, want := p.nodes[2].finish, max(kept, passed-own); got != want {
		t.Errorf("I8: back at tag %d, want %d", got, want)
	}
	testkit.OK(t, p.Check())
}

// Who picks up what: by key its own, due or not; by count of retries, or unknown, the
// first of its leaf that is due; a first try none.
//
// Catches: a key that is not known and takes another's place.
func TestI8_PickUpOrder(t *testing.T) {
	for _, c := range []struct {
		claim Claim
		due   bool
		takes uint64 // the key of the place that is taken; 0: none
	}{
		{Claim{Key: 8}, false, 8},
		{Claim{Key: 8, Retry: RetryFirst}, true, 8},
		{Claim{Retry: RetryAgain}, false, 0},
		{Claim{Retry: RetryAgain}, true, 7},
		{Claim{Retry: RetryUnknown}, false, 0},
		{Claim{Retry: RetryUnknown}, true, 7},
		{Claim{Retry: RetryFirst}, true, 0},
		{Claim{Key: 9}, true, 0}, // its own key: it is nobody who was here
		{Claim{Key: 9, Retry: RetryAgain}, true, 7},
	} {
		p, now := ticketPool(t)
		var last time.Duration
		for _, key := range []uint64{7, 8} {
			last = ticket(t, p, now, key).Wait
		}
		if _, ans := p.Offer(now, Call{Leaf: 3, Most: Cost{100, 1}, Claim: Claim{Key: 5}}); !ans.Ticket {
			t.Fatal(ans)
		}
		if c.due {
			now = now.Add(last + time.Second) // told in whole seconds
		}
		p.advance(now)
		got := uint64(0)
		if n := p.claimed(&Call{Leaf: 2, Claim: c.claim}); n >= 0 {
			got = p.entries[n].key
		}
		if got != c.takes {
			t.Errorf("%+v, due %v: takes the place of key %d, want %d", c.claim, c.due, got, c.takes)
		}
	}
}

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
		leaf := p.Add(Root, Node{Weight: 1})
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
	leaf := p.Add(Root, Node{Weight: 1})
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
		leaf := p.Add(Root, Node{Weight: 1})
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
		leaf := p.Add(Root, Node{Weight: 1})
		call := Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: time.Hour}
		for range 100 { // so that a call's run is known
			h, _ := p.Offer(now, call)
			now = now.Add(time.Second)
			p.Settle(now, h, Cost{0, 1})
		}
		p.Narrow(0)
		for range 5 {
			p.Offer(now, call)
		}
		p.Narrow(c.narrow)
		p.Expect(c.expect)
		if got := p.slotWait(Root).Round(time.Millisecond); got != c.waits.Round(time.Millisecond) {
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
			n := Node{Weight: Weight(rapid.IntRange(1, 4).Draw(t, "weight"))}
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

// Forecast reports the axis that stands in the way of a call, and when its turn would come,
// without offering it: Axis, Behind and Wait of an Answer that refuses. It says
// nothing of whether the call could go at once: Wait is 0 then, and may be 0 behind
// others as well. It costs as much as a refused Offer.
func (p *Pool) Forecast(now time.Time, c Call) Answer {
	p.advance(now)
	p.looking = true
	defer func() { p.looking = false }()
	e := p.entryOf(&c)
	return p.forecast(now, &e)
}
