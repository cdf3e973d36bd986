package parts

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// claim is of a limit of 10 that is hungry, or not, of one.
func claim(kind Kind, used, part, want int64) Claim {
	return Claim{Name: "x", Kind: kind, Limit: 10, Ends: 900_000, Used: used, Part: part, Want: want}
}

func tell(a *Account, now int64, instance string, seq int64, claims ...Claim) []Part {
	return a.Beat(now, &Beat{Owner: "o", Instance: instance, Seq: seq, Claims: claims}).Parts
}

// wants compares parts, but for what they say for the case of a loss.
func wants(t *testing.T, got []Part, want ...Part) {
	t.Helper()
	for i := range got {
		got[i].Sum = 0
		got[i].Gone = 0
		got[i].Most = 0
		got[i].Peers = 0
	}
	if !slices.EqualFunc(got, want, func(a, b Part) bool { return reflect.DeepEqual(a, b) }) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestTaken_Period: of a period what is not used is divided, so that who used little is due no more
// than there is, and keeps nothing that others could use.
func TestTaken_Period(t *testing.T) {
	a := &Account{}
	wants(t, tell(a, 1000, "a", 1, claim(Period, 0, 0, 50)), Part{Part: 10})
	wants(t, tell(a, 1100, "b", 1, claim(Period, 0, 0, 50)), Part{})
	wants(t, tell(a, 2000, "a", 2, claim(Period, 4, 10, 50)), Part{Part: 7})
	wants(t, tell(a, 2100, "b", 2, claim(Period, 0, 0, 50)), Part{Others: 4})
	wants(t, tell(a, 2200, "a", 3, claim(Period, 4, 7, 50)), Part{Part: 7})
	wants(t, tell(a, 2300, "b", 3, claim(Period, 0, 0, 50)), Part{Part: 3, Others: 4})
	wants(t, tell(a, 2400, "a", 4, claim(Period, 7, 7, 50)), Part{Part: 7})
	wants(t, tell(a, 2500, "b", 4, claim(Period, 0, 3, 50)), Part{Part: 2, Others: 7})
	wants(t, tell(a, 2600, "b", 5, claim(Period, 0, 2, 50)), Part{Part: 2, Others: 7})
	wants(t, tell(a, 2700, "a", 5, claim(Period, 7, 7, 50)), Part{Part: 8})
}

// TestSilent: what a process that is heard of no more had counts by its kind, and as if it were used.
func TestSilent(t *testing.T) {
	for _, x := range []struct {
		kind  Kind
		until int64 // it counts
		used  int64
		lasts int64
	}{
		{Slots, 1000 + 2500, 3, 0},
		{Rolling, 1000 + 62_500, 6, 0},
		{Period, 900_000 + 60_000, 6, 0},
		{Slots, 1000 + 22_500, 3, 20_000},
		{Rolling, 1000 + 82_500, 6, 20_000},
	} {
		a := &Account{}
		first := claim(x.kind, 3, 0, 6)
		first.Lasts = x.lasts
		wants(t, tell(a, 1000, "a", 1, first), Part{Part: 6, Others: 0})
		if a.Forget() != x.until-1000 {
			t.Errorf("%s: it is forgotten after %d ms", x.kind, a.Forget())
		}
		wants(t, tell(a, x.until, "b", 1, claim(x.kind, 0, 0, 50)), Part{Part: 4, Others: x.used})
		late := claim(x.kind, 0, 0, 50)
		late.Ends *= 2 // else it is over for all
		wants(t, tell(a, x.until+1, "b", 2, late), Part{Part: 10, Others: 0})
	}
}

// TestSilent_Windows: use of a rolling limit with a window of its own counts for that, also of a process that has left the limit.
func TestSilent_Windows(t *testing.T) {
	for _, tail := range []int64{5000, 18_000_000} {
		for _, leaves := range []bool{false, true} {
			a := &Account{}
			c := claim(Rolling, 6, 0, 6)
			c.Tail = tail
			wants(t, tell(a, 1000, "a", 1, c), Part{Part: 6})
			if leaves {
				tell(a, 1000, "a", 2)
			}
			until := 1000 + 2500 + tail
			other := claim(Rolling, 0, 0, 50)
			other.Tail = tail
			wants(t, tell(a, until, "b", 1, other), Part{Part: 4, Others: 6})
			wants(t, tell(a, until+1, "b", 2, other), Part{Part: 10})
		}
	}
}

// TestRetell: a process that is idle tells sixty times in a long window what has left it, and not every second.
func TestRetell(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := NewHolder("o", "i", 1)
	a := &Account{}
	beat := func(used int64) {
		b := h.Beat(now, false, []Claim{{Name: "x", Kind: Rolling, Limit: 100, Used: used, Want: used, Tail: 3_600_000}})
		r := a.Beat(now.UnixMilli(), b)
		if !h.Answered(now, &r) {
			t.Fatal("the answer does not count")
		}
	}
	beat(50)
	beat(50)
	beats := 0
	for range 3600 {
		now = now.Add(time.Second)
		if h.Due(now, false, false) {
			beats++
			beat(50)
		}
	}
	if beats != 60 {
		t.Errorf("%d beats in an hour", beats)
	}
	beat(3)
	beat(3)
	now = now.Add(time.Hour)
	if h.Due(now, false, false) {
		t.Error("a crumb has to be told of again")
	}
}

// TestHeld: what calls in other processes may give back is told, as long as these are heard of.
func TestHeld(t *testing.T) {
	a := &Account{}
	c := claim(Period, 7, 0, 7)
	c.Held = 3
	tell(a, 1000, "a", 1, c)
	tell(a, 1000, "b", 1, c)
	wants(t, tell(a, 1000, "b", 2, c), Part{Part: 3, Others: 7, Held: 3})
	wants(t, tell(a, 1000, "c", 1, claim(Period, 0, 0, 5)), Part{Others: 14, Held: 6})
	wants(t, tell(a, 3501, "c", 2, claim(Period, 0, 0, 5)), Part{Others: 14})
}

// TestOver: of a period that is over nobody gets anything.
func TestOver(t *testing.T) {
	a := &Account{}
	wants(t, tell(a, 960_000, "a", 1, claim(Period, 0, 0, 6)), Part{Part: 6, Others: 0})
	wants(t, tell(a, 960_001, "a", 2, claim(Period, 0, 6, 6)), Part{})
	if len(a.Members[0].Holds) > 0 || a.Forget() != 2500 {
		t.Errorf("kept: %+v", a)
	}
}

// TestLeft: what a process used of a limit that it tells nothing of any more counts on, but for
// its slots.
func TestLeft(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		a := &Account{}
		wants(t, tell(a, 1000, "a", 1, claim(kind, 4, 0, 50)), Part{Part: 10, Others: 0})
		tell(a, 1100, "a", 2)
		want := Part{Part: 6, Others: 4}
		if kind == Slots {
			want = Part{Part: 10, Others: 0}
		}
		wants(t, tell(a, 1200, "b", 1, claim(kind, 0, 0, 50)), want)
	}
	a := &Account{}
	lasting := claim(Rolling, 4, 0, 6)
	lasting.Lasts = 20_000
	wants(t, tell(a, 1000, "a", 1, lasting), Part{Part: 6})
	tell(a, 11_000, "a", 2) // it may have used all of its part since
	wants(t, tell(a, 73_500, "b", 1, claim(Rolling, 0, 0, 50)), Part{Part: 4, Others: 6})
	wants(t, tell(a, 73_501, "b", 2, claim(Rolling, 0, 0, 50)), Part{Part: 10})
}

// TestLeaves: of those who have left nothing is kept but what they used, of periods in one sum.
func TestLeaves(t *testing.T) {
	for kind, want := range map[Kind]Part{Rolling: {Part: 4, Others: 6}, Period: {Part: 4, Others: 6}, Slots: {Part: 4, Others: 6}} {
		a := &Account{}
		for i, instance := range []string{"a", "b", "c"} {
			now := 1000 + int64(i)
			wants(t, tell(a, now, instance, 1, claim(kind, 2, 0, 4)), Part{Part: 4, Others: 2 * int64(i)})
			a.Beat(now, &Beat{Instance: instance, Seq: 2, Left: true, Claims: []Claim{claim(kind, 2, 2, 2)}})
			if r := a.Beat(now, &Beat{Instance: instance, Seq: 2, Left: true, Claims: []Claim{claim(kind, 2, 2, 2)}}); r.Seq != 0 {
				t.Error("a last beat was taken twice")
			}
		}
		wants(t, tell(a, 1100, "d", 1, claim(kind, 0, 0, 50)), want)
		tell(a, 3600, "d", 2, claim(kind, 0, 4, 4))
		if members := map[Kind]int{Rolling: 4, Period: 2, Slots: 1}[kind]; len(a.Members) != members {
			t.Errorf("%s: kept %+v", kind, a.Members)
		}
	}
}

// TestTwice: a beat that comes late or twice changes nothing, and is not answered.
func TestTwice(t *testing.T) {
	a := &Account{}
	wants(t, tell(a, 1000, "a", 2, claim(Slots, 4, 0, 6)), Part{Part: 6, Others: 0})
	for seq := range int64(3) {
		if r := a.Beat(1100, &Beat{Instance: "a", Seq: seq, Claims: []Claim{claim(Slots, 0, 0, 0)}}); r.Seq != 0 || r.Parts != nil {
			t.Errorf("beat %d was answered with %+v", seq, r)
		}
	}
	wants(t, tell(a, 1200, "b", 1, claim(Slots, 0, 0, 50)), Part{Part: 4, Others: 4})
}

// TestBack: where the store's clock is put back nothing is forgotten later, or told anew.
func TestBack(t *testing.T) {
	a := &Account{}
	tell(a, 100_000, "a", 1, claim(Rolling, 4, 0, 4))
	tell(a, 50_000, "b", 1, claim(Rolling, 6, 0, 6))
	wants(t, tell(a, 162_500, "c", 1, claim(Rolling, 0, 0, 50)), Part{Part: 0, Others: 10})
	wants(t, tell(a, 162_501, "c", 2, claim(Rolling, 0, 0, 50)), Part{Part: 10, Others: 0})
}

// TestIdle: of who has given all back nothing is kept but its last number, for a while.
func TestIdle(t *testing.T) {
	a := &Account{}
	tell(a, 1000, "a", 1, claim(Rolling, 0, 0, 5))
	tell(a, 1100, "a", 2, claim(Rolling, 0, 5, 0))
	wants(t, tell(a, 1200, "b", 1, claim(Rolling, 0, 0, 50)), Part{Part: 5, Others: 0})
	tell(a, 1300, "a", 3, claim(Rolling, 0, 0, 0))
	wants(t, tell(a, 1400, "b", 2, claim(Rolling, 0, 5, 50)), Part{Part: 10, Others: 0})
	if len(a.Members) != 2 || len(a.Members[0].Holds) != 0 {
		t.Errorf("kept: %+v", a.Members)
	}
	tell(a, 3801, "b", 3, claim(Rolling, 0, 10, 50))
	if len(a.Members) != 1 {
		t.Errorf("kept: %+v", a.Members)
	}
}

// TestShare: max-min, and the floor of the one that has waited longest.
func TestShare(t *testing.T) {
	for _, x := range []struct {
		avail             int64
		kind              Kind
		used, want, needs []int64
		gets              []int64
	}{
		{10, Slots, []int64{0, 0}, []int64{3, 7}, []int64{0, 0}, []int64{3, 7}},
		{10, Slots, []int64{0, 0}, []int64{3, 8}, []int64{0, 0}, []int64{3, 7}},
		{10, Slots, []int64{0, 0, 0}, []int64{50, 1, 50}, []int64{0, 0, 0}, []int64{4, 1, 5}},
		{1, Slots, []int64{0, 0}, []int64{5, 5}, []int64{0, 0}, []int64{0, 1}},
		{1, Slots, []int64{0, 1}, []int64{5, 5}, []int64{1, 0}, []int64{1, 0}},
		{10, Slots, []int64{5, 5}, []int64{50, 50}, []int64{6, 6}, []int64{5, 5}}, // their own calls make room
		{10, Rolling, []int64{0, 5}, []int64{50, 50}, []int64{7, 6}, []int64{7, 3}},
		{10, Rolling, []int64{2, 5}, []int64{50, 50}, []int64{9, 6}, []int64{7, 3}},
		{10, Rolling, []int64{6, 4}, []int64{50, 50}, []int64{17, 6}, []int64{10, 0}},
		{10, Rolling, []int64{0, 0}, []int64{50, 50}, []int64{7, 8}, []int64{7, 3}}, // the first has waited longer
		{10, Period, []int64{5, 4}, []int64{50, 50}, []int64{6, 5}, []int64{6, 4}},
		{0, Slots, []int64{0, 0}, []int64{5, 5}, []int64{1, 1}, []int64{0, 0}},
	} {
		var live []*Hold
		for i := range x.used {
			h := &Hold{Kind: x.kind, Used: x.used[i], Want: x.want[i], Need: x.needs[i]}
			if h.Need > 0 {
				h.Since = int64(i + 1)
			}
			live = append(live, h)
		}
		var gets []int64
		for _, h := range live {
			gets = append(gets, target(h, live, x.avail))
		}
		if !slices.Equal(gets, x.gets) {
			t.Errorf("%+v: got %v", x, gets)
		}
	}
}

// TestWithin: what no process would tell is bounded, and sums are.
func TestWithin(t *testing.T) {
	a := &Account{}
	wild := Claim{Name: "x", Kind: Slots, Limit: 1 << 62, Used: 1 << 62, Want: -5, Need: 1 << 62}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		tell(a, 1000, name, 1, wild)
	}
	wants(t, tell(a, 1000, "z", 1, Claim{Name: "x", Kind: Slots, Limit: -3, Want: 9}), Part{Part: 0, Others: 4e15})
}

// TestEncode: what is written down is read again, and nothing else.
func TestEncode(t *testing.T) {
	a := &Account{}
	tell(a, 1000, "a", 1, claim(Rolling, 4, 0, 50), claim(Period, 4, 0, 50)) // of one name, which is none of ours
	tell(a, 1200, "b", 7, claim(Slots, 4, 0, 50))
	b := testkit.Must(a.Encode())(t)
	c := testkit.Must(Decode(b))(t)
	if again, _ := c.Encode(); string(again) != string(b) || len(c.Members) != 2 {
		t.Errorf("got %+v, want %+v", c, a)
	}
	for _, bad := range []string{"", "\x01", "\x02{", string(b[:len(b)-1])} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q was taken for an account", bad)
		}
	}
}

var start = time.Unix(1_000_000, 0)

// TestDue: when a process tells.
func TestDue(t *testing.T) {
	h := NewHolder("o", "i", 1)
	now := start
	due := func(busy, lacking bool) time.Duration {
		t.Helper()
		for d := time.Duration(0); d <= 3*time.Second; d += 10 * time.Millisecond {
			if h.Due(now.Add(d), busy, lacking) {
				return d
			}
		}
		return -1
	}
	beat := func(c Claim, answer int64) {
		t.Helper()
		b := h.Beat(now, c.Need > 0, []Claim{c})
		now = now.Add(10 * time.Millisecond)
		if !h.Answered(now, &Reply{Seq: b.Seq, Parts: []Part{{Part: answer}}}) {
			t.Fatal("the answer was not taken")
		}
	}
	within := func(what string, got, least, most time.Duration) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: due after %v, want %v…%v", what, got, least, most)
		}
	}
	const ms = time.Millisecond
	within("at first", due(false, false), 0, 0)
	hungry := Claim{Name: "x", Kind: Rolling, Limit: 10, Want: 20, Need: 5}
	b := h.Beat(now, true, []Claim{hungry})
	within("not answered", due(true, true), 900*ms, 1100*ms)
	h.Lost()
	within("lost, and a call waits", due(true, true), 90*ms, 100*ms)
	within("lost", due(true, false), 900*ms, 1100*ms)
	h.Answered(now, &Reply{Seq: b.Seq, Parts: []Part{{}}})
	within("answered", due(true, false), 900*ms, 1100*ms)
	for _, pause := range []time.Duration{200 * ms, 400 * ms, 800 * ms, 900 * ms} {
		within("in vain", due(true, true), pause-10*ms, pause+100*ms)
		beat(hungry, 0)
	}
	beat(hungry, 8)
	within("it brought something", due(true, true), 90*ms, 100*ms)
	beat(hungry, 4)
	within("a smaller part", due(true, false), 240*ms, 250*ms)
	hungry.Need = 0
	hungry.Want = 3
	beat(hungry, 3)
	within("as small as it wants", due(false, false), 890*ms, 1100*ms)
	idle := Claim{Name: "x", Kind: Rolling, Limit: 10}
	beat(idle, 0)
	within("to give all back", due(false, false), 240*ms, 250*ms)
	beat(idle, 0)
	within("nothing is held", due(false, false), -1, -1)
	within("nothing is held, but a call waits", due(true, true), 90*ms, 100*ms)
	within("nothing is held, but a call runs", due(true, false), 890*ms, 1100*ms)
	used := Claim{Name: "x", Kind: Period, Limit: 10, Used: 3, Want: 3}
	beat(used, 5)
	within("it has a part", due(false, false), 890*ms, 1100*ms)
	used.Used = 2
	used.Want = 2
	beat(used, 2)
	within("its part is more than it told", due(false, false), 890*ms, 1100*ms)
	beat(used, 2)
	within("nothing is held of a period", due(false, false), -1, -1)
	used.Kind = Slots
	used.Used = 5
	beat(used, 2)
	within("more runs than its part", due(false, false), 240*ms, 250*ms)
	used.Used = 2
	beat(used, 2)
	hungry = Claim{Name: "x", Kind: Slots, Limit: 10, Used: 2, Want: 20, Need: 3, Tail: 1}
	for range 4 {
		beat(hungry, 2)
	}
	within("in vain for slots of all", due(true, true), 490*ms, 500*ms)
	beat(used, 2)
	used.Kind = Rolling
	beat(used, 2)
	within("what is used will count no more", due(false, false), 890*ms, 1100*ms)
}

// TestDrift: parts expire a part in a thousand early, counted from when the beat was sent.
func TestDrift(t *testing.T) {
	h := NewHolder("o", "i", 1)
	b := h.Beat(start, true, []Claim{{Name: "x", Kind: Slots, Limit: 5, Want: 5}})
	answer := &Reply{Seq: b.Seq, Parts: []Part{{Part: 5}}}
	end := start.Add(2497500 * time.Microsecond)
	if h.Answered(end, answer) || h.Part(end, "x") != 0 {
		t.Error("an answer was taken that has expired")
	}
	if !h.Answered(start.Add(time.Second), answer) || h.Answered(start.Add(time.Second), answer) {
		t.Error("an answer is taken once")
	}
	if !h.Until().Equal(end) || h.Part(end.Add(-1), "x") != 5 || h.Part(end, "x") != 0 {
		t.Errorf("it is %d until %v", h.Part(end.Add(-1), "x"), h.Until().Sub(start))
	}
}
