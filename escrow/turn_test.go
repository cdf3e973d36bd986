package escrow

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// crowdedPool is a pool of which a heavy tenant wants more than it gets, and keeps only few calls
// waiting: it always has the next one. A light tenant of an eighth of its weight asks beside it.
func crowdedPool(t *testing.T) (w *sim, light *source) {
	w = newSim(t, 1, Config{TPM: 600_000, MaxQueue: 1000, TicketWait: 10 * time.Second})
	heavy := w.leaf(Root, Node{Weight: 8}, 1000)
	heavy.keep = 2
	light = w.leaf(Root, Node{Weight: 1}, 1000)
	light.call = Call{MaxWait: -1, Claim: Claim{Retry: RetryFirst}}
	w.run(90 * time.Second)
	return w, light
}

// TestPromise_CountsThoseWhoComeYet: thirty calls of a ninth of the pool take 27 s of it, also if
// those of others that are to go before them have not come yet; and each of them has a place.
func TestPromise_CountsThoseWhoComeYet(t *testing.T) {
	w, light := crowdedPool(t)
	var last Answer
	for n := range 30 {
		last = w.offer(light)
		if last.Verdict != TooLong || !last.Ticket {
			t.Fatalf("call %d: %+v, want a refusal with a place", n, last)
		}
	}
	if last.Wait < 20*time.Second || last.Wait > 40*time.Second {
		t.Errorf("the 30th call was told %v, want about 27 s", last.Wait)
	}
	if ans := w.p.Foretell(w.now, Call{Leaf: light.leaf, Most: Cost{1000, 1}, MaxWait: time.Minute}); ans.Wait < 15*time.Second {
		t.Errorf("a call that may wait would have its turn in %v, want about 27 s", ans.Wait)
	}
}

// TestPromise_FarTurnsAreTrue: callers whose turns are half a minute away come back when told, and are
// served within the time that they may wait in line.
func TestPromise_FarTurnsAreTrue(t *testing.T) {
	w, light := crowdedPool(t)
	type caller struct {
		back time.Time
		key  uint64
	}
	var callers []caller
	ask := func(key uint64, retry Retry) {
		light.call.Claim = Claim{Key: key, Retry: retry}
		if ans := w.offer(light); ans.Verdict == TooLong {
			callers = append(callers, caller{w.now.Add(ans.Wait), key})
		}
	}
	for key := range uint64(30) {
		ask(key+1, RetryFirst)
	}
	told := len(callers)
	for range 70 * 100 {
		w.run(w.dt)
		still := callers
		callers = nil
		for _, c := range still {
			if w.now.Before(c.back) {
				callers = append(callers, c)
				continue
			}
			ask(c.key, RetryAgain)
		}
	}
	if told < 28 || len(callers) > 0 || light.waiting > 0 {
		t.Fatalf("of %d that were told to come back, %d were told again and %d wait", told, len(callers), light.waiting)
	}
	if light.worst > 10*time.Second {
		t.Errorf("one of them waited in line for %v", light.worst)
	}
}

// TestPromise_RefusedAgainKeepsItsTurn: a caller that came back too early, and waited in line in vain,
// does not go behind those of its tenant that have come since.
func TestPromise_RefusedAgainKeepsItsTurn(t *testing.T) {
	w, light := crowdedPool(t)
	light.call.Claim.Key = 7
	first := w.offer(light)
	for key := range uint64(140) {
		light.call.Claim.Key = 100 + key
		w.offer(light)
	}
	w.run(first.Wait + w.dt)
	w.p.held = w.now.Add(time.Minute) // so that it waits in vain
	h, ans := w.p.Offer(w.now, Call{Leaf: light.leaf, Most: Cost{1000, 1}, Claim: Claim{Key: 7, Retry: RetryAgain}})
	if ans.Verdict != Queued {
		t.Fatalf("who came back when told got %+v", ans)
	}
	now := w.now.Add(ans.Patience)
	w.p.held = time.Time{}
	again, ok := w.p.Refuse(now, h, 7)
	if !ok || !again.Ticket || again.Wait > 2*time.Second {
		t.Errorf("was told %v (%+v) after it had waited in vain, want it to be next", again.Wait, again)
	}
	testkit.OK(t, w.p.Check())
}

// TestPromise_LeftCallersAreNotWaitedFor: of a tenant whose callers give up when they are told more
// than ten seconds, those that are left are not told times that count the others.
func TestPromise_LeftCallersAreNotWaitedFor(t *testing.T) {
	w, light := crowdedPool(t)
	flood := func() (worst time.Duration) {
		for n := range uint64(60) {
			light.call.Claim.Key = 1 + n + uint64(w.now.UnixNano())
			ans := w.offer(light)
			worst = max(worst, ans.Wait)
		}
		return worst
	}
	before := flood() // none of them comes back
	w.run(2 * time.Minute)
	flood()
	w.run(2 * time.Minute)
	if after := flood(); after > before/2 {
		t.Errorf("the last of 60 callers was told %v when nobody knew them, and %v when all had left twice", before, after)
	}
}

// TestPromise_CallersOfWhomNobodyKnows: a caller that may have asked before gets a place only if its
// turn is near, or it would have one for each time it asks.
func TestPromise_CallersOfWhomNobodyKnows(t *testing.T) {
	for _, c := range []struct {
		claim Claim
		far   bool
	}{
		{Claim{Retry: RetryFirst}, true},
		{Claim{Key: 9}, true},
		{Claim{Retry: RetryAgain}, false},
		{Claim{}, false},
	} {
		w, light := crowdedPool(t)
		for n := range uint64(200) {
			light.call.Claim = Claim{Key: 100 + n}
			w.offer(light)
		}
		light.call.Claim = c.claim
		if ans := w.offer(light); ans.Ticket != c.far || ans.Wait < time.Minute {
			t.Errorf("%+v: %+v, want the place kept: %v", c.claim, ans, c.far)
		}
	}
}

// TestPlaces_OfTheAbsent: a call that may wait is not refused because of callers of its leaf who were told to come later than that, as when
// the leaf's share has grown since. Those who come meanwhile go before it, and those who come before their time behind it.
func TestPlaces_OfTheAbsent(t *testing.T) {
	for _, c := range []struct {
		after  time.Duration // since the places were promised
		wait   time.Duration
		share  int64
		beside bool // a background call of its leaf, which goes behind it
		early  bool // a caller of its leaf, before its time
		want   Verdict
	}{
		{wait: 4 * time.Second, share: shareWhole, want: Queued},
		{wait: 4 * time.Second, share: shareWhole, beside: true, want: Queued},
		{wait: 4 * time.Second, share: shareWhole, early: true, want: Queued},
		{wait: 4 * time.Second, share: shareWhole / 8, want: TooLong},
		{wait: 8 * time.Second, share: shareWhole / 8, want: Queued},
		{wait: 8 * time.Second, share: shareWhole / 8, after: 2 * time.Second, want: TooLong},
	} {
		w, light := crowdedPool(t)
		w.p.Share(light.leaf, shareWhole/8)
		w.sources[0].keep = 100
		w.run(w.dt)
		for key := range uint64(12) { // it is served one each 6.5 s
			light.call.Claim = Claim{Key: 1 + key}
			ans := w.offer(light)
			if !ans.Ticket || key > 0 && ans.Wait <= 4*time.Second {
				t.Fatalf("the caller of place %d was told %+v", key, ans)
			}
		}
		w.run(c.after)
		w.p.Share(light.leaf, c.share)
		behind := 0
		if c.beside {
			light.call = Call{Background: true, Claim: Claim{Retry: RetryFirst}}
			w.offer(light)
			behind = 1
		}
		light.call = Call{MaxWait: c.wait, Claim: Claim{Retry: RetryFirst}}
		if ans := w.offer(light); ans.Verdict != c.want {
			t.Errorf("%+v: %+v", c, ans)
		}
		if c.early {
			light.call.Claim = Claim{Key: 12}
			ans := w.offer(light)
			first := w.p.nodes[light.leaf].calls[interactive].head
			if ans.Verdict != Queued || !w.p.entries[first].turn.IsZero() {
				t.Errorf("%+v: who comes before its time got %+v, and goes first", c, ans)
			}
			behind = 1
		}
		w.run(c.wait)
		if light.waiting > behind {
			t.Errorf("%+v: it waited in vain", c)
		}
	}
}

// TestPlaces_Many: also of thousands of places those count that are promised within the time that a call may wait.
func TestPlaces_Many(t *testing.T) {
	for share, want := range map[int64]bool{shareWhole: false, shareWhole / 4: true} {
		w := newSim(t, 1, Config{TPM: 600_000, TicketWait: 10 * time.Second})
		w.leaf(Root, Node{Weight: 1}, 100).keep = 1000
		light := w.leaf(Root, Node{Weight: 1}, 5)
		w.p.Share(light.leaf, shareWhole/2)
		w.run(90 * time.Second)
		light.call.MaxWait = -1
		for key := range uint64(10_000) { // it is served 666 a second, and these are told three quarters of their turn
			light.call.Claim.Key = 1 + key
			w.offer(light)
		}
		w.p.Share(light.leaf, share)
		light.call = Call{MaxWait: 4 * time.Second, Claim: Claim{Retry: RetryFirst}}
		if ans := w.offer(light); (ans.Verdict == TooLong) != want {
			t.Errorf("at a share of %d ppm: %+v, want it too long: %v", share, ans, want)
		}
	}
}

// TestPlaces_OneTenantLeavesSomeFree: a flood of refused calls does not take all places of a pool.
func TestPlaces_OneTenantLeavesSomeFree(t *testing.T) {
	w := newSim(t, 1, Config{TPM: 600_000, MaxQueue: 100, TicketWait: 10 * time.Second})
	w.leaf(Root, Node{Weight: 1}, 1000).keep = 2
	flood := w.leaf(Root, Node{Weight: 1}, 100)
	other := w.leaf(Root, Node{Weight: 1}, 100)
	w.run(time.Minute)
	for _, s := range []*source{flood, other} {
		s.call = Call{MaxWait: -1, Claim: Claim{Retry: RetryFirst}}
	}
	for range 300 {
		w.offer(flood)
	}
	if got := w.p.Tickets(); got < 40 || got > 60 {
		t.Errorf("one tenant has %d of 100 places", got)
	}
	if ans := w.offer(other); ans.Verdict == TooLong && !ans.Ticket {
		t.Errorf("the other got %+v", ans)
	}
}

// TestPatience: what is learned of one length of promises holds for others, so far as it follows.
func TestPatience(t *testing.T) {
	const short, middle, long = 4 * time.Second, 15 * time.Second, 200 * time.Second
	var l patience
	doubt := func(d time.Duration) int64 { return l.doubted(100, lengthOf(d)) }
	for range 60 {
		l.learn(lengthOf(middle), false)
		l.learn(lengthOf(short), true)
	}
	if doubt(short) != 0 || doubt(middle) < 95 || doubt(long) < 95 {
		t.Errorf("of callers that stay away for 4 s, and not for 15 s, are doubted %d, %d and %d %%", doubt(short), doubt(middle), doubt(long))
	}
	for range 60 {
		l.learn(lengthOf(long), true)
	}
	if doubt(short) != 0 || doubt(middle) > 1 || doubt(long) > 1 {
		t.Errorf("of callers that stay away for 200 s are doubted %d, %d and %d %%", doubt(short), doubt(middle), doubt(long))
	}
	for d := time.Duration(0); d < 2*ticketReach; d += time.Second {
		if n := lengthOf(d); n >= promiseLengths || n < lengthOf(d-time.Second) {
			t.Fatalf("%v has length %d", d, n)
		}
	}
	for n := 1; n < promiseLengths; n++ {
		if at, before := lengthOf(shortestOf(n)), lengthOf(shortestOf(n)-time.Second); at != uint8(n) || before != uint8(n-1) {
			t.Fatalf("from %v on the length is said to be %d; it is %d, and %d before", shortestOf(n), n, at, before)
		}
	}
}

// TestPromise_ShortEnoughForItsCallers: callers that give up after ten seconds are told less, if their
// turn comes while they may wait in line after that, and the truth if it comes later.
func TestPromise_ShortEnoughForItsCallers(t *testing.T) {
	var l patience
	if got := l.longest(); got != forever {
		t.Errorf("nothing is known of the callers, and they are said to wait for %v", got)
	}
	for range 4 {
		l.learn(lengthOf(8*time.Second), true)
		l.learn(lengthOf(10*time.Second), false)
	}
	if got := l.longest(); got != 9*time.Second {
		t.Fatalf("of callers that give up after ten seconds the longest promise is %v, want 9s", got)
	}
	for _, c := range []struct{ turn, steady, hasty time.Duration }{
		{8 * time.Second, 6 * time.Second, 6 * time.Second},
		{14 * time.Second, 10500 * time.Millisecond, 9 * time.Second},
		{16 * time.Second, 16*time.Second - 4*time.Second + time.Second/3, 9 * time.Second},
		{27 * time.Second, 26 * time.Second, 19500 * time.Millisecond},
	} {
		g := gaps{wait: time.Minute, all: 60_000, line: 10 * time.Second, bears: forever}
		if got := g.after(c.turn.Milliseconds(), &entry{}); got != c.steady {
			t.Errorf("for a turn in %v callers are told %v, want %v", c.turn, got, c.steady)
		}
		g.bears = l.longest()
		if got := g.after(c.turn.Milliseconds(), &entry{}); got != c.hasty {
			t.Errorf("for a turn in %v callers that give up are told %v, want %v", c.turn, got, c.hasty)
		}
	}
}

// TestPromise_LargeCallsAreNotCalledEarly: if a call takes more of its leaf's time than its caller may
// wait in line, the turn is not known that well, and the caller comes late; by a quarter at most.
func TestPromise_LargeCallsAreNotCalledEarly(t *testing.T) {
	g := gaps{wait: time.Minute, all: 60_000, line: 10 * time.Second, bears: forever}
	for own, want := range map[int64]time.Duration{1000: 9, 4000: 11, 5000: 12, 7000: 14, 30_000: 15} {
		if got := g.after(12_000, &entry{virtual: own}); got != want*time.Second {
			t.Errorf("a call of %d ms of its leaf's time is told %v, want %ds", own, got, want)
		}
	}
}

// TestPromise_TeamIsToldWhatATenantIs: a team that is alone below its tenant has the same turns as a
// tenant without teams. What its own call costs comes after its turn, at every level.
func TestPromise_TeamIsToldWhatATenantIs(t *testing.T) {
	for _, tokens := range []int64{1000, 20_000} {
		told := func(teams int) time.Duration {
			p := New(t0, Config{TPM: 600_000, MaxQueue: 100, TicketWait: 10 * time.Second})
			busy := p.Add(Root, Node{Weight: 1})
			leaf := p.Add(Root, Node{Weight: 1})
			for range teams {
				leaf = p.Add(leaf, Node{Weight: 1})
			}
			for range 50 {
				p.Offer(t0, Call{Leaf: busy, Most: Cost{2000, 1}, MaxWait: time.Hour})
			}
			p.Pump(t0, nil)
			return p.Forecast(t0, Call{Leaf: leaf, Most: Cost{tokens, 1}}).Wait
		}
		if tenant, team := told(0), told(2); team != tenant {
			t.Errorf("with a call of %d tokens a tenant is told %v and a team %v", tokens, tenant, team)
		}
	}
}

// TestPromise_CountsTheCallThatSpansTheTurnOnce: of a tenant with an earlier tag the call that has
// begun before a turn goes before it, and no other one.
func TestPromise_CountsTheCallThatSpansTheTurnOnce(t *testing.T) {
	p := New(t0, Config{TPM: 600_000, MaxQueue: 100})
	leaf := p.Add(Root, Node{Weight: 1})
	for range 20 {
		p.Offer(t0, Call{Leaf: leaf, Most: Cost{3000, 1}, MaxWait: time.Hour})
	}
	w := walk{tree: &p.tree, left: maxWalk}
	one := p.headCost(leaf)
	for _, c := range []struct{ tail, want int64 }{{0, one}, {one / 3, one}, {one - 1, one}, {one, 2 * one}, {3 * one, 4 * one}} {
		if got, _ := w.until(leaf, p.keptTag(leaf)+p.nodes[leaf].over(c.tail)); got != c.want {
			t.Errorf("up to %d of calls of %d each, %d are served, want %d", c.tail, one, got, c.want)
		}
	}
}

// TestFlow: what was served lately is an average over one minute at least, and two at most.
func TestFlow(t *testing.T) {
	const second = int64(time.Second / time.Microsecond)
	var f flow
	for at := int64(0); at < 100; at++ {
		f.add(at*second, 10)
	}
	for _, c := range []struct {
		at   int64
		want int64
	}{{100, 100}, {119, 84}, {121, 66}, {179, 34}, {181, 0}} {
		if got := f.within(c.at*second, 10*time.Second); got < c.want-1 || got > c.want+1 {
			t.Errorf("at %d s: %d in ten seconds, want %d", c.at, got, c.want)
		}
	}
	if got := f.needs(100*second, 500); got < 49*time.Second || got > 51*time.Second {
		t.Errorf("500 take %v, want 50 s", got)
	}
}

// Who returns catches up on what the others ran ahead by, as far as it counts in their
// shares: of ten tokens that they took at once, their tags were moved by one.
func TestLeadIsWhatCountsInShares(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(now, Config{TPM: 600_000, Burst: Window, MaxQueue: 10})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 1})
	take := func(tokens int64) {
		h, ans := p.Offer(now, Call{Leaf: a, Most: Cost{tokens, 1}, Fair: tokens / 10})
		if ans.Verdict != Admitted {
			t.Fatalf("a call of %d tokens at %v: %+v", tokens, now, ans)
		}
		p.SettleFair(now, h, Cost{tokens, 1}, tokens/10)
	}
	p.Offer(now, Call{Leaf: a, Most: Cost{1, 1}}) // it runs on, so that the pool is never idle
	for range 600 {
		now = now.Add(time.Second)
		take(9000)
	}
	now = now.Add(time.Minute)
	for range 20 {
		take(20_000)
	}
	p.advance(now)
	back := p.virtualOf(p.nodes[Root].inner) - p.startTag(b)
	if want := p.lead / 10; p.lead == 0 || back < want*99/100 || back > want*101/100 {
		t.Errorf("who returns starts %d back, want %d of a lead of %d", back, want, p.lead)
	}
	testkit.OK(t, p.Check())
}

// What is told beyond what there is, or below nothing, changes nothing.
func TestFairIsAPartOfTheCost(t *testing.T) {
	now := time.Unix(0, 0)
	for _, tt := range []struct{ expected, told, want int64 }{
		{0, 1000, 1000}, // 0 is all of it
		{2000, 1000, 1000},
		{100, 100, 100},
		{100, 5000, 1000},
		{1000, -1, 0},
	} {
		p := New(now, Config{TPM: 600_000, MaxQueue: 10})
		a := p.Add(Root, Node{Weight: 1})
		h, _ := p.Offer(now, Call{Leaf: a, Most: Cost{1000, 1}, Fair: tt.expected})
		p.SettleFair(now, h, Cost{1000, 1}, tt.told)
		if got, want := p.nodes[a].finish, muldiv.Ceil(tt.want, tagUnit, 600_000); got != want {
			t.Errorf("expected %d, told %d of 1000: the tag is %d, want %d", tt.expected, tt.told, got, want)
		}
		if used := p.State(now).Axes[Tokens].Used; used != 1000 {
			t.Errorf("the ledger counts %d, want 1000", used)
		}
	}
}
