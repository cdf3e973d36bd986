package limits

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// single is a window by itself, with an account of its own.
type single struct {
	Window
	account shape.Account
}

// carried is what a call has booked in single windows.
type carried struct {
	hold      Hold
	cost      Cost
	suspended bool
	in        []inSingle
}

type inSingle struct {
	account shape.Account
	of      Axis
	amount  int64
	slot    int64
}

// windows drives a Set and single windows through the same steps.
type windows struct {
	*rapid.T
	now   time.Time
	set   *Set
	all   []*single
	calls []*carried
}

// A Set lets a call go if each of its windows by itself has room, and counts in each of them as if it were alone.
func TestSet_WindowsAllHaveToFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &windows{T: t, now: time.UnixMilli(1_000_000_000_000), set: New(false, nil)}
		w.configure()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps := []func(){w.pass, w.offer, w.offer, w.settle, w.move, w.configure}
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
			w.check()
		}
	})
}

func (w *windows) pass() {
	w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{1, 300, 4000, 31_000}).Draw(w.T, "ms")) * time.Millisecond)
	w.set.Advance(w.now)
	for _, x := range w.all {
		x.account.Advance(w.now)
	}
	for _, c := range w.calls {
		for _, x := range c.in { // of limits that are no more
			x.account.Advance(w.now)
		}
	}
}

// configure changes the windows. Some stay, with the same amount or another.
func (w *windows) configure() {
	var list []Window
	var all []*single
	for range rapid.IntRange(0, MaxWindows).Draw(w.T, "windows") {
		x := Window{
			Of: rapid.SampledFrom([]Axis{Requests, Tokens}).Draw(w.T, "of"),
			Rule: shape.Rule{
				Kind:   shape.Kind(rapid.IntRange(0, int(shape.GCRA)).Draw(w.T, "kind")),
				Amount: rapid.SampledFrom([]int64{1, 5, 40, 100}).Draw(w.T, "amount"),
				Per:    rapid.SampledFrom([]time.Duration{5 * time.Second, 30 * time.Second}).Draw(w.T, "per"),
			},
		}
		if slices.ContainsFunc(list, x.Same) {
			continue
		}
		list = append(list, x)
		at := slices.IndexFunc(w.all, func(o *single) bool { return o.Same(x) })
		if at < 0 {
			all = append(all, &single{x, shape.New(w.now, x.Rule)})
			continue
		}
		kept := w.all[at]
		kept.Window = x
		kept.account.Reshape(x.Rule)
		kept.account.SetLimit(x.Capacity())
		kept.account.Advance(w.now)
		all = append(all, kept)
	}
	w.all = all
	w.set.Configure(w.now, Limits{Windows: list}, 10)
	w.set.Advance(w.now)
}

func (w *windows) offer() {
	cost := Cost{Requests: 1, Tokens: rapid.Int64Range(0, 60).Draw(w.T, "tokens")}
	fits := true
	for _, x := range w.all {
		fits = fits && x.account.Room() >= min(cost[x.Of], x.Capacity())
	}
	c := &carried{cost: cost}
	ans := w.set.Offer(Call{Cost: cost}, &c.hold)
	if (ans.Verdict == Admitted) != fits {
		w.Fatalf("%v: verdict %d, but each has room: %t", cost, ans.Verdict, fits)
	}
	if !fits {
		if ans.Lack.Wait <= 0 {
			w.Fatalf("%v is to come back in %v", cost, ans.Lack.Wait)
		}
		return
	}
	for _, x := range w.all {
		amount := min(cost[x.Of], x.Capacity())
		x.account.Book(amount)
		c.in = append(c.in, inSingle{x.account, x.Of, amount, x.account.Slot()})
	}
	w.calls = append(w.calls, c)
}

func (w *windows) move() {
	if len(w.calls) == 0 {
		return
	}
	c := w.calls[rapid.IntRange(0, len(w.calls)-1).Draw(w.T, "call")]
	c.suspended = !c.suspended
	if c.suspended {
		w.set.Suspend(&c.hold)
	} else {
		w.set.Resume(&c.hold)
	}
	for i := range c.in {
		x := &c.in[i]
		if c.suspended {
			x.account.Correct(x.slot, -x.amount)
			x.account.Hold(x.amount)
			continue
		}
		x.account.Drop(x.amount)
		x.account.Book(x.amount)
		x.slot = x.account.Slot()
	}
}

func (w *windows) settle() {
	if len(w.calls) == 0 {
		return
	}
	at := rapid.IntRange(0, len(w.calls)-1).Draw(w.T, "call")
	c := w.calls[at]
	w.calls = slices.Delete(w.calls, at, at+1)
	took := Cost{Requests: 1, Tokens: rapid.Int64Range(0, 70).Draw(w.T, "took")}
	w.set.Settle(&c.hold, took, time.Second)
	for _, x := range c.in {
		if c.suspended {
			x.account.Drop(x.amount)
			x.account.Book(x.amount)
			x.slot = x.account.Slot()
		}
		x.account.Correct(x.slot, took[x.of]-x.amount)
	}
}

func (w *windows) check() {
	found := 0
	for k := range Axis(Axes) {
		have, ok := w.set.Window(k)
		if !ok {
			continue
		}
		found++
		at := slices.IndexFunc(w.all, func(x *single) bool { return x.Window == have })
		if at < 0 {
			w.Fatalf("%s is no limit", have.Name())
		}
		if got, want := w.set.Used(k), w.all[at].account.Used(); got != want {
			w.Fatalf("%s: %d is used, want %d", have.Name(), got, want)
		}
	}
	if found != len(w.all) {
		w.Fatalf("%d of %d windows are there", found, len(w.all))
	}
}

// The grant of a window by the clock is not for the next one.
func TestSet_GrantEndsWithItsWindow(t *testing.T) {
	now := time.UnixMilli(1_000_000_000_000).Truncate(30 * time.Second)
	s := New(true, nil)
	s.Configure(now, Limits{Windows: []Window{{Tokens, shape.Rule{Kind: shape.Fixed, Amount: 100, Per: 30 * time.Second}}}}, 10)
	s.Renew(now.Add(time.Hour))
	s.Allow(firstWindow, 60)
	name := s.ShareName(firstWindow)
	if _, fits := s.Fits(Cost{Tokens: 60}); !fits {
		t.Error("60 of 60 do not fit")
	}
	s.Advance(now.Add(30 * time.Second))
	if _, fits := s.Fits(Cost{Tokens: 1}); fits || s.ShareName(firstWindow) == name {
		t.Errorf("the next window has the grant of the last, by the name of %s", name)
	}
}

// A call that does not fit fits when the forecast says so, and no earlier, if nobody else comes.
func TestForecast_IsWhenThereIsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		s := New(false, nil)
		var limits Limits
		for k := range limits.Minute {
			limits.Minute[k] = rapid.SampledFrom([]int64{0, 5, 30, 100}).Draw(t, "limit")
		}
		early := time.Duration(1)
		for k, kind := range rapid.SliceOfN(rapid.IntRange(0, int(shape.GCRA)), 0, 2).Draw(t, "windows") {
			rule := shape.Rule{Kind: shape.Kind(kind), Amount: rapid.SampledFrom([]int64{5, 60}).Draw(t, "amount"), Per: 30 * time.Second}
			limits.Windows = append(limits.Windows, Window{Axis(k), rule})
			if rule.Kind.Bucket() {
				early = 2 * rule.Per / 1e6 // it counts in ticks
			}
		}
		s.Configure(now, limits, 10)
		draw := func() (c Call) {
			for k := range c.Cost {
				c.Cost[k] = rapid.Int64Range(0, 40).Draw(t, "cost")
			}
			c.Via = Via{Team: "x", Weight: 1}
			return c
		}
		for range rapid.IntRange(0, 20).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9_000).Draw(t, "ms")) * time.Millisecond)
			s.Advance(now)
			s.Offer(draw(), new(Hold))
		}
		s.Advance(now)
		call := draw()
		f := s.Forecast(call)
		wait := time.Duration(0)
		for _, w := range f.Waits {
			wait = max(wait, w)
		}
		if (f.Answer.Verdict == Admitted) != (wait == 0) {
			t.Fatalf("the verdict is %d, and the wait %v", f.Answer.Verdict, wait)
		}
		if wait == 0 {
			return
		}
		s.Advance(now.Add(wait - early))
		if _, fits := s.Fits(f.Answer.Cost); fits {
			t.Fatalf("%v fits before %v have passed", call.Cost, wait)
		}
		s.Advance(now.Add(wait))
		if lacks, fits := s.Fits(f.Answer.Cost); !fits {
			t.Fatalf("after %v %v does not fit: it lacks %v", wait, call.Cost, lacks)
		}
	})
}

// Whatever joins a line and leaves it: calls are in the order of their tags, those of
// one team in that of their priority and arrival and one behind the other, and the sums are right.
func TestLine_OrderAndSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		ways := []Via{
			{Team: "x", Weight: 1},
			{Team: "y", Weight: 3},
			{Team: "z", Weight: 0.001},
		}
		arrived := map[*Place]int{}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch n := len(l.places); {
			case n == 0 || rapid.IntRange(0, 2).Draw(t, "what") == 0:
				w := &Place{cost: Cost{1, rapid.Int64Range(0, 100).Draw(t, "cost")}}
				arrived[w] = step
				c := Call{Via: rapid.SampledFrom(ways).Draw(t, "team"), Below: rapid.IntRange(0, 2).Draw(t, "below")}
				l.join(w, &c, whole/rapid.Int64Range(1, 1000).Draw(t, "limit"))
			case rapid.Bool().Draw(t, "served"):
				l.leave(l.places[0], true)
			default:
				l.leave(l.places[rapid.IntRange(0, n-1).Draw(t, "who")], false)
			}
			var sum Cost
			counts := map[string]int{}
			last := map[string]*Place{}
			for i, w := range l.places {
				sum = sum.Plus(w.cost, 1)
				counts[w.team]++
				if i > 0 && l.places[i-1].tag > w.tag {
					t.Fatalf("place %d has tag %d, the one before it %d", i, w.tag, l.places[i-1].tag)
				}
				if o := last[w.team]; o != nil && (o.below > w.below || o.below == w.below && arrived[o] > arrived[w] || w.tag != o.tag+o.part) {
					t.Fatalf("of one team came %d with tag %d + %d, and then %d with %d", arrived[o], o.tag, o.part, arrived[w], w.tag)
				}
				last[w.team] = w
			}
			if sum != l.cost {
				t.Fatalf("the calls cost %v, the line says %v", sum, l.cost)
			}
			for team, turn := range l.teams {
				if turn.calls != counts[team] {
					t.Fatalf("%d calls of %s wait, the line says %d", counts[team], team, turn.calls)
				}
				if w := last[team]; w != nil && turn.next != w.tag+w.part {
					t.Fatalf("the next of %s would start at %d, want %d", team, turn.next, w.tag+w.part)
				}
			}
		}
	})
}

// TestSet_Owe: what was owed has been paid off at the whole limit since, also where nothing is granted yet.
//
// Seen to fail with: what is owed taken over at what is granted.
func TestSet_Owe(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, kind := range []shape.Kind{shape.Rolling, shape.Fixed, shape.TokenBucket} {
		w := Window{Of: Tokens, Rule: shape.Rule{Kind: kind, Amount: 1000, Per: time.Minute}}
		var owed [2]int64
		for i, shared := range []bool{false, true} {
			s := New(shared, nil)
			s.Configure(now, Limits{Minute: Cost{Tokens: 1000}, Windows: []Window{w}}, 0)
			s.Advance(now)
			for _, name := range []string{s.Name(Tokens), s.Name(firstWindow)} {
				s.Owe(&WindowUse{name, []shape.Booking{{At: now.Add(-3 * time.Minute), Amount: 5000, Owed: true}}})
			}
			owed[i] = s.UsedHere(Tokens) + 10_000*s.UsedHere(firstWindow)
			if shared && s.accounts[Tokens].Limit() != 0 {
				t.Errorf("%v: %d may be used here before any grant", kind, s.accounts[Tokens].Limit())
			}
		}
		if owed[0] != owed[1] || owed[0]%10_000 < 2900 || owed[0]%10_000 > 3100 {
			t.Errorf("%v: %d is owed, and %d of limits that are shared", kind, owed[0], owed[1])
		}
	}
}

// Window is the limit of an axis that is a Window's; ok is false for others.
func (b *books) Window(k Axis) (w Window, ok bool) {
	if k < firstWindow || k >= Concurrency || b.limits[k] == 0 {
		return Window{}, false
	}
	return b.windows[k-firstWindow], true
}
