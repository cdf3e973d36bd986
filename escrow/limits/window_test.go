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
