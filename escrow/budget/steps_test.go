package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// script drives a Split of one hour by name.
type script struct {
	*testing.T
	s   *Split
	now time.Time
	ids map[string]MemberID
}

func newScript(t *testing.T, cfg Config, weights map[string]int64) *script {
	x := &script{T: t, s: NewSplit(cfg), now: at("2026-05-05 12:00"), ids: map[string]MemberID{}}
	for name, w := range weights {
		x.ids[name] = x.s.Add(x.now, name, w)
	}
	return x
}

func (x *script) minute(m int) { x.now = at("2026-05-05 12:00").Add(time.Duration(m) * time.Minute) }

// ask expects a verdict, and after a refusal RetryAt in seconds after noon.
func (x *script) ask(name string, c int64, ok bool, retry ...int) Hold {
	x.Helper()
	h, ans := x.s.Hold(x.now, x.ids[name], c)
	if ans.OK != ok {
		x.Fatalf("%s asks for %d at %s: %+v", name, c, x.now.Format("15:04"), ans)
	}
	for _, sec := range retry {
		if want := at("2026-05-05 12:00").Add(time.Duration(sec) * time.Second); !ans.RetryAt.Equal(want) {
			x.Errorf("%s, refused %d, is told %v, want %v", name, c, ans.RetryAt, want)
		}
	}
	testkit.OK(x, x.s.Check())
	return h
}

// The shares of three, and how one that is quiet gives its own away.
func TestSharesAndDecay(t *testing.T) {
	x := newScript(t, Config{Limit: 700, Period: Hour}, map[string]int64{"a": 4000, "b": 2000, "c": 1000})
	x.ask("c", 101, false, 6) // 600 an hour leave the others' shares, who have said nothing
	x.ask("c", 100, true)
	x.ask("b", 200, true)
	x.ask("a", 10, true) // a has 390 left, and is quiet from now on
	x.minute(30)
	// a was at 1.5 minutes: it keeps 200 of 400, and 190 are there for anybody.
	x.ask("b", 191, false)
	x.ask("b", 90, true)
	x.ask("c", 90, true) // a second borrow, and a third
	x.ask("c", 10, true)
	x.ask("c", 100, false, 45*60)
	x.ask("a", 200, true)
	x.ask("c", 1, false, 3600)
	wantUsed(t, x.s, x.now, 700)
}

// Who collects what it kept does not collect it again from another's share. With
// the earlier rule (reserve by use and time alone, and everybody within its
// share admitted) the first to come back takes it all.
func TestNobodyCollectsTwice(t *testing.T) {
	x := newScript(t, Config{Limit: 300, Period: Hour}, map[string]int64{"a": 1000, "b": 1000, "loud": 1000})
	x.ask("loud", 100, true)
	x.minute(54)
	x.ask("loud", 180, true)
	x.ask("loud", 1, false)
	x.ask("a", 10, true)
	x.ask("a", 1, false) // what is left is b's
	x.ask("b", 10, true)
}

// A member that was there in the last hour is not given away before it asks.
func TestTheFirstCallerDoesNotTakeAll(t *testing.T) {
	x := newScript(t, Config{Limit: 100, Period: Hour, NoDecay: true}, map[string]int64{"a": 1000, "b": 1000})
	x.ask("a", 51, false, 60*60) // b is new
	x.ask("a", 1, true)
	x.ask("b", 1, true)
	x.minute(60)
	x.ask("a", 51, false, 120*60) // b was there
	x.minute(120)
	x.ask("a", 100, true) // b was silent for an hour
	x.ask("b", 1, false, 180*60)
	x.minute(180)
	x.ask("b", 51, false, 240*60) // a was there; b has come late and is there again
	x.ask("b", 50, true)
	x.minute(600)
	x.ask("a", 51, false, 660*60) // hours without anybody are not remembered
}

// A member that is heard of late keeps what is ahead of it, if it was there
// before; and so does one that is new.
func TestLateJoiner(t *testing.T) {
	x := newScript(t, Config{Limit: 100, Period: Hour}, map[string]int64{"a": 1000, "b": 1000})
	x.minute(45)
	x.ask("a", 88, false, 45*60+36)
	x.ask("a", 87, true)
	x.ask("b", 12, true) // 50 · 1/4
	x.minute(60)
	x.ids["c"] = x.s.Add(x.now, "c", 2000)
	x.minute(75)
	x.ask("a", 100-19-37, false, 75*60+12)
	x.ask("a", 100-19-38, true)
	x.ask("c", 37, true)
	x.ask("b", 18, true)
}

// What calls give back, and what they take beyond their holds, moves shares.
func TestSettleUpAndDown(t *testing.T) {
	x := newScript(t, Config{Limit: 100, Period: Hour, NoDecay: true}, map[string]int64{"a": 1000, "b": 1000})
	h := x.ask("a", 50, true)
	x.ask("a", 1, false)
	x.s.Settle(x.now, h, 20)
	h = x.ask("a", 30, true)
	x.s.Settle(x.now, h, 45)
	wantUsed(t, x.s, x.now, 65)
	x.ask("b", 36, false) // the last 15 were b's, and they are gone
	x.ask("b", 35, true)
}

// Weights act from now on; what was used is seen by the new share.
func TestSetWeightAndRemove(t *testing.T) {
	x := newScript(t, Config{Limit: 100, Period: Hour, NoDecay: true}, map[string]int64{"a": 1000, "b": 1000, "c": 2000})
	h := x.ask("a", 25, true)
	x.ask("a", 1, false)
	x.s.SetWeight(x.now, x.ids["a"], 3000) // 50 of 100
	x.ask("a", 26, false)
	x.ask("a", 25, true)
	x.s.Remove(x.now, x.ids["a"]) // its 50 stay used; b and c share the rest 1:2
	x.ask("a", 1, false)
	x.ask("b", 17, false)
	x.ask("b", 16, true)
	x.s.Settle(x.now, h, 5) // a call of a's ends: 20 are back
	wantUsed(t, x.s, x.now, 46)
	x.ask("b", 0, true) // b's share has grown: it is seen when b says a word
	x.ask("c", 47, false)
	x.ids["a"] = x.s.Add(x.now, "a", 1000) // 25 of 100, and 30 are used
	x.ask("a", 1, false)
	x.ask("c", 50, true)
	x.s.SetLimit(200)
	x.ask("a", 20, true)
}

// What a pool strands with shares that are kept, and with shares that decay: the
// heavy one says a word and is silent, the others ask all the time, equally often.
//
// What decay gives back goes to who asks first, not by weight: of what a leaves
// c gets no less than b, with half its weight.
func TestWhatQuietMembersStrand(t *testing.T) {
	for _, tc := range []struct {
		noDecay bool
		used    int64
	}{{true, 12_800}, {false, 29_900}} {
		x := newScript(t, Config{Limit: 30_000, Period: Hour, NoDecay: tc.noDecay}, map[string]int64{"a": 4000, "b": 2000, "c": 1000})
		x.ask("a", 100, true)
		rng := rand.New(rand.NewPCG(1, 2))
		for s := range 3600 {
			x.now = at("2026-05-05 12:00").Add(time.Duration(s+1)*time.Second - time.Microsecond)
			for range 40 {
				x.s.Hold(x.now, x.ids[[]string{"b", "c"}[rng.IntN(2)]], 100)
			}
		}
		t.Logf("NoDecay %v: %d of 30000 used; b %d, c %d", tc.noDecay, x.s.Used(x.now), x.s.UsedBy(x.now, x.ids["b"]), x.s.UsedBy(x.now, x.ids["c"]))
		wantUsed(t, x.s, x.now, tc.used)
	}
}

// filled has n members of many weights that have used different amounts.
func filled(n int) (*Split, []MemberID) {
	s := NewSplit(Config{Limit: MaxLimit, Period: Day})
	ids := make([]MemberID, n)
	for i := range ids {
		ids[i] = s.Add(t0, fmt.Sprint(i), int64(1000*(1+i%7)))
	}
	for i, id := range ids {
		s.Hold(t0, id, int64(i)*48271%(MaxLimit/int64(4*n)))
	}
	return s, ids
}

func TestHoldDoesNotAllocate(t *testing.T) {
	s, ids := filled(1000)
	now := t0.Add(time.Hour)
	i := 0
	if got := testkit.Allocs(t, 2000, func() {
		i = (i + 7919) % len(ids)
		h, _ := s.Hold(now, ids[i], 10)
		s.Settle(now, h, 4)
		s.Hold(now, ids[i], MaxLimit/2)
	}); got > 0 {
		t.Errorf("%d allocations for an admission, an end and a refusal", got)
	}
}
