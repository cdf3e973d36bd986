package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestAllowance_Envelope: a shared pool never hands out more than its allowances say, and
// what calls give back is not handed out again.
func TestAllowance_Envelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := t0
		p := New(now, Config{TPM: 600_000, MaxQueue: 100, Shared: true})
		leaf := p.Add(Root, Node{Weight: 1})
		var a Allowance
		spent := func() int64 { return p.Spent(Tokens) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				a = Allowance{
					Since: now, Until: now.Add(time.Duration(rapid.IntRange(0, 2500).Draw(t, "left")) * time.Millisecond),
					Level: int64(rapid.IntRange(-500, 3000).Draw(t, "level")), Rate: int64(rapid.IntRange(0, 600_000).Draw(t, "rate")),
					Spent: spent(),
				}
				p.Allow(now, Tokens, a)
			} else {
				p.Offer(now, Call{Leaf: leaf, Most: Cost{int64(rapid.IntRange(1, 2000).Draw(t, "cost")), 1}, MaxWait: time.Hour})
			}
			before := spent()
			for _, h := range p.Pump(now, nil) {
				p.Settle(now, h, Cost{}) // gives all back
			}
			may := a.Level + a.Rate*int64(now.Sub(a.Since)/time.Microsecond)/windowMicros
			if took := spent() - before; took > 0 && (!now.Before(a.Until) || spent()-a.Spent > may) {
				t.Fatalf("at %v: %d spent since the allowance %+v, which is %d by now", now.Sub(t0), spent()-a.Spent, a, may)
			}
			testkit.OK(t, p.Check())
		}
	})
}

// TestAllowance_Needed: a shared pool without an allowance hands out nothing, lets calls
// wait, and a new allowance lets them go.
func TestAllowance_Needed(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true})
	leaf := p.Add(Root, Node{Weight: 1})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, MaxWait: 5 * time.Second})
	if ans.Verdict != Queued {
		t.Fatalf("got %+v, want the call to wait for an allowance", ans)
	}
	if got := p.Pump(t0.Add(time.Second), nil); len(got) > 0 {
		t.Fatal("a call went without an allowance")
	}
	at := t0.Add(2 * time.Second)
	p.Allow(at, Tokens, Allowance{Since: at, Until: at.Add(time.Second), Level: 100})
	if got := p.Pump(at, nil); len(got) != 1 || got[0] != h {
		t.Fatalf("got %v, want the call that waits to go", got)
	}
	p.Settle(at, h, Cost{150, 1})
	if _, left := p.Allowed(at, Tokens); left != -50 {
		t.Errorf("after 150 of 100 are used there is %d left, want -50", left)
	}
}

// TestAllowance_Promise: who is granted hardly anything at the moment is not told to come back in an hour, whether
// or not others wait: more is granted soon after it is asked for.
func TestAllowance_Promise(t *testing.T) {
	for _, waiting := range []int{0, 1} {
		for _, rate := range []int64{0, 1, 60} {
			p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true})
			leaf := p.Add(Root, Node{Weight: 1})
			p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(2 * time.Second), Rate: rate})
			for range waiting {
				p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, MaxWait: time.Hour})
			}
			_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}})
			if ans.Verdict == Admitted || ans.Wait < 100*time.Millisecond || ans.Wait > Window {
				t.Errorf("%d wait, granted %d a minute: %+v, want a promise within a minute", waiting, rate, ans)
			}
		}
	}
}

// TestAllowance_PromiseEarly: until calls have waited for a Window, a small allowance tells nobody to come back later than what was
// used before has left, and than the whole limit needs for the calls that go before and the call itself. Then it is a small share.
func TestAllowance_PromiseEarly(t *testing.T) {
	const limit, rate = 60_000, 600
	minutes := func(tokens, limit int64) time.Duration {
		return time.Duration(tokens) * time.Minute / time.Duration(limit)
	}
	for _, queued := range []int64{0, 5000, limit} {
		for _, cost := range []int64{100, 2700, limit} {
			p := New(t0, Config{TPM: limit, MaxQueue: 10, Shared: true})
			leaf := p.Add(Root, Node{Weight: 1})
			told := func(now time.Time) time.Duration {
				p.Allow(now, Tokens, Allowance{Since: now, Until: now.Add(2 * time.Second), Rate: rate})
				_, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{cost, 1}})
				return ans.Wait
			}
			p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0})
			if queued > 0 {
				p.Offer(t0, Call{Leaf: leaf, Most: Cost{queued, 1}, MaxWait: time.Hour})
			}
			early := Window + minutes(queued+cost, limit)
			for _, since := range []time.Duration{0, Window / 2, Window - time.Second} {
				if wait := told(t0.Add(since)); wait < time.Second || wait > early {
					t.Errorf("%d tokens behind %d are told to come back in %v after %v, want %v at most", cost, queued, wait, since, early)
				}
			}
			share := min(time.Hour, minutes(queued+cost, rate))
			if wait := told(t0.Add(Window)); queued > 0 && wait < share-time.Second {
				t.Errorf("%d tokens behind %d are told to come back in %v, of a share that needs %v", cost, queued, wait, share)
			}
		}
	}
}

// TestAllowance_LargeCall: in a shared pool a call larger than the burst waits for all that
// it takes: a debt would be another process's.
func TestAllowance_LargeCall(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true}) // a burst of a second: 1000
	leaf := p.Add(Root, Node{Weight: 1})
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Minute), Level: 2000, Rate: 60_000})
	_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{5000, 1}, MaxWait: time.Hour})
	if ans.Verdict != Queued {
		t.Fatalf("got %+v for a call of 5000 with 2000 allowed, want it to wait", ans)
	}
	if got := p.Pump(t0.Add(2900*time.Millisecond), nil); len(got) > 0 {
		t.Fatal("a call went before its allowance was there")
	}
	if got := p.Pump(t0.Add(3*time.Second), nil); len(got) != 1 {
		t.Fatalf("got %v, want the call to go as 5000 are allowed", got)
	}
}

// TestShare: a share scales what weighs and what is owed, and is undone whole.
func TestShare(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	a := p.Add(Root, Node{Weight: 3, Floor: 1000})
	p.Share(a, 250_000)
	if got := p.nodes[a]; got.weight != 750 || got.floor != 250 {
		t.Errorf("a quarter of weight 3 and a floor of 1000 is %d and %d", got.weight, got.floor)
	}
	p.Update(a, Node{Weight: 2})
	if got := p.nodes[a].weight; got != 500 {
		t.Errorf("a quarter of weight 2 is %d", got)
	}
	p.Share(a, shareWhole)
	if got := p.Node(a).Node; got.Weight != 2 || p.nodes[a].weight != 2000 {
		t.Errorf("the whole of weight 2 is %+v", got)
	}
}

// TestDemand: whoever asks again and again is told apart from who comes back when told.
func TestDemand(t *testing.T) {
	one := ceilDiv(tagUnit, 60) // a call of 1000 at a limit of 60,000
	for name, c := range map[string]struct {
		claim []Claim
		again int64
	}{
		"nobody knows":              {[]Claim{{}, {}, {}}, 3},
		"each for the first time":   {[]Claim{{Retry: RetryFirst}, {Retry: RetryFirst}, {Retry: RetryFirst}}, 0},
		"the same, before its time": {[]Claim{{Retry: RetryFirst}, {Retry: RetryAgain}, {Retry: RetryAgain}}, 2},
		"each with a key":           {[]Claim{{Key: 1}, {Key: 2}, {Key: 3}}, 0},
	} {
		p := New(t0, Config{TPM: 60_000, MaxQueue: 10, TicketWait: 10 * time.Second, Shared: true})
		leaf := p.Add(Root, Node{Weight: 1})
		for _, claim := range c.claim {
			if _, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}, Claim: claim}); !ans.Ticket {
				t.Fatalf("%s: got %+v, want a place kept", name, ans)
			}
		}
		if d := p.Demand(leaf); d.Again != c.again*one || d.Away != 0 || d.Served != 0 {
			t.Errorf("%s: of three refused %+v is asked for, want %d again", name, d, c.again)
		}
	}

	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, Shared: true}) // and no places
	leaf := p.Add(Root, Node{Weight: 1})
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}})
	if d := p.Demand(leaf); d.Away != one || d.Call != one || d.CallUnits != (Cost{1000, 1}) || d.Waiting != 0 {
		t.Errorf("of a call that was refused for good %+v is asked for", d)
	}
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Minute), Level: 1000})
	h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{1000, 1}})
	if ans.Verdict != Admitted {
		t.Fatalf("got %+v", ans)
	}
	if d := p.Demand(leaf); d.Served != one || d.Units != (Cost{1000, 1}) {
		t.Errorf("of a call that was served %+v is told", d)
	}
	p.Settle(t0, h, Cost{1000, 1})
	if !p.Remove(t0, leaf) || p.Demand(p.Add(Root, Node{Weight: 1})) != (Demand{}) {
		t.Error("another leaf asks for what one before it did")
	}
}

// TestDemand_Due: a kept place is demand from a second before its time until its caller would have come, and not before or after.
func TestDemand_Due(t *testing.T) {
	const one = 1000
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10, TicketWait: 10 * time.Second, Shared: true})
	leaf := p.Add(Root, Node{Weight: 1})
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Hour), Rate: 12_000}) // a call each 5 s
	_, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{one, 1}, Claim: Claim{Key: 1}})
	if !ans.Ticket || ans.Wait != 5*time.Second {
		t.Fatalf("got %+v, want a place in 5 s", ans)
	}
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {3900 * time.Millisecond, 0}, {4 * time.Second, one}, {5200 * time.Millisecond, one}, {5250 * time.Millisecond, 0}, {10 * time.Second, 0}} {
		p.Pump(t0.Add(c.after), nil)
		if d := p.Demand(leaf); d.WaitingUnits[Tokens] != c.want || (d.Due > 0) != (c.want > 0) || d.Waiting != d.Due {
			t.Errorf("after %v %+v is asked for, want %d tokens", c.after, d, c.want)
		}
		if d := p.Demand(Root); d.WaitingUnits != (Cost{}) {
			t.Errorf("after %v calls of %v wait, though nobody does", c.after, d.WaitingUnits)
		}
	}
	if p.Tickets() != 1 {
		t.Error("the place is not kept any more")
	}
}

// TestAllowance_Next: a shared pool looks again when there is a whole unit, counting what
// its allowance had grown to before: not when there would be one from now on.
func TestAllowance_Next(t *testing.T) {
	p := New(t0, Config{RPM: 600, MaxQueue: 10, Shared: true})
	leaf := p.Add(Root, Node{Weight: 1})
	p.Allow(t0, Requests, Allowance{Since: t0, Until: t0.Add(time.Minute), Rate: 400}) // one each 150 ms
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: time.Hour})
	for _, ms := range []int{20, 60, 110, 140} {
		p.Pump(t0.Add(time.Duration(ms)*time.Millisecond), nil)
		if next, ok := p.Next(); !ok || next.After(t0.Add(150*time.Millisecond)) {
			t.Errorf("after %d ms it looks again after %v, want 150 ms", ms, next.Sub(t0))
		}
	}
	if got := p.Pump(t0.Add(150*time.Millisecond), nil); len(got) != 1 {
		t.Error("after 150 ms there is no whole request")
	}
}

// Whoever shares a limit out is told what the call that is next takes, and what the
// largest of late took, also where the pool has had no allowance for a while.
func TestShared_HeadAndLargest(t *testing.T) {
	p := New(t0, Config{TPM: 6_000_000, Burst: time.Minute, MaxQueue: 10, Shared: true})
	leaf := p.Add(Root, Node{Weight: 1})
	offer := func(tokens int64) {
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{tokens, 1}, MaxWait: time.Hour})
	}
	offer(70_000)
	offer(30_000)
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{70_000, 1}) {
		t.Errorf("the head takes %v, want 70,000 tokens", got)
	}
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Hour), Level: 80_000})
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{30_000, 1}) {
		t.Errorf("the head takes %v, want 30,000 tokens", got)
	}
	p.Allow(t0, Tokens, Allowance{Since: t0, Until: t0.Add(time.Hour), Level: 80_000, Spent: 70_000})
	p.Pump(t0, nil)
	if got := p.Head(); got != (Cost{}) {
		t.Errorf("nobody waits, and the head takes %v", got)
	}
	if got := p.Largest()[Tokens]; got != 70_000 {
		t.Errorf("the largest call took %d, want 70,000", got)
	}
	p.Pump(t0.Add(36*time.Second), nil)
	if got := p.Largest()[Tokens]; got > 35_000 || got < 30_000 {
		t.Errorf("after 36 s the largest call counts %d, want half of 70,000", got)
	}
}

// TestRefundable: calls that run give back no more of what is booked than Refundable says.
func TestRefundable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := t0
		kind := rapid.SampledFrom([]Accounting{AdmitMax, Production, Settled}).Draw(t, "accounting")
		p := New(now, Config{TPM: 600_000, RPM: 6000, MaxQueue: 100, Accounting: kind})
		leaf := p.Add(Root, Node{Weight: 1})
		booked := func() (sum Cost) {
			p.Bookings(now, func(b Booking) { sum[b.Axis] += b.Cost })
			return sum
		}
		var running []Handle
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			most := int64(rapid.IntRange(1, 2000).Draw(t, "most"))
			p.Offer(now, Call{Leaf: leaf, Most: Cost{most, 1}, Expect: most, Input: most / 3, Speed: 100, MaxWait: time.Hour})
			running = append(running, p.Pump(now, nil)...)
			if len(running) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
			before := booked()
			refundable := p.Refundable()
			if rapid.Bool().Draw(t, "ends") {
				actual := Cost{int64(rapid.IntRange(0, 2500).Draw(t, "actual")), int64(rapid.IntRange(0, 1).Draw(t, "request"))}
				p.Settle(now, running[i], actual)
				running = append(running[:i], running[i+1:]...)
			} else {
				p.Progress(now, running[i], Progress{Taken: int64(rapid.IntRange(0, 2500).Draw(t, "taken")), Expect: int64(rapid.IntRange(0, 2500).Draw(t, "expect"))})
			}
			after := booked()
			for k := range after {
				// Stretches are rounded up to whole units, one by one.
				if back := before[k] - after[k]; back > refundable[k]+calendarSlots {
					t.Fatalf("axis %d: %d was given back, and %d was refundable", k, back, refundable[k])
				}
			}
		}
	})
}
