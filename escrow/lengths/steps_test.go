package lengths

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// line is one step of a call's life: verb, call, number, and what must be answered.
type line struct {
	verb string // start, expect, reach, end, cut
	call string
	n    int64
	want int64 // of expect and reach
}

// run plays lines on a Book that knows after 2 completions and does not age.
func run(t *testing.T, lines []line) {
	t.Helper()
	b := New(Config{Enough: 2, HalfLife: 1 << 40})
	calls := map[string]*Stream{}
	for i, l := range lines {
		got := l.want
		switch l.verb {
		case "start":
			s := b.Start(someKind, l.n)
			calls[l.call] = &s
		case "expect":
			settle(b)
			got = b.Expect(calls[l.call])
		case "reach":
			settle(b)
			got = b.Reach(calls[l.call], l.n)
		case "end":
			b.End(calls[l.call], l.n, true)
		case "cut":
			b.End(calls[l.call], l.n, false)
		}
		if got != l.want {
			t.Fatalf("line %d: %s %s %d: got %d, want %d", i+1, l.verb, l.call, l.n, got, l.want)
		}
	}
}

// settle makes every table stale.
func settle(b *Book) {
	for i := range b.nodes {
		b.nodes[i].news = b.nodes[i].due
	}
}

// Seen to fail with: knows always true; prior 1 → 20.
func TestMostUntilEnough(t *testing.T) {
	run(t, []line{
		{"start", "a", 100, 0},
		{"expect", "a", 0, 100},
		{"reach", "a", 40, 100},
		{"end", "a", 50, 0},
		{"start", "b", 100, 0},
		{"cut", "b", 10, 0}, // is no completion
		{"start", "c", 100, 0},
		{"expect", "c", 0, 100},
		{"end", "c", 50, 0},
		{"start", "d", 100, 0},
		{"expect", "d", 0, 52},   // and a little for calls that never end
		{"reach", "d", 120, 120}, // more than allowed is believed, and no more expected
	})
}

// Calls that all end in one place are expected there: a bin's lengths are its
// mean, not its middle. And who has passed that place is not.
//
// Seen to fail with: a bin's floor instead of the sum of lengths; the line in mean
// upside down.
func TestOnePlace(t *testing.T) {
	lines := []line{}
	for range 50 {
		lines = append(lines, line{"start", "a", 1024, 0}, line{"end", "a", 207, 0})
	}
	run(t, append(lines, []line{
		{"start", "b", 1024, 0},
		{"expect", "b", 0, 208},
		{"reach", "b", 100, 208},
		{"reach", "b", 192, 216}, // b may be one that does not end here
		{"reach", "b", 200, 620}, // halfway between its bin and the unknown
		{"reach", "b", 208, 1024},
		{"expect", "b", 0, 224}, // one of 51 goes on
		{"end", "b", 1024, 0},
		{"reach", "b", 300, 1024}, // has ended
	}...))
}

// Calls that use up what they may are expected to; and never more, though others
// of the same power of two may take more.
func TestNeverMoreThanMost(t *testing.T) {
	lines := []line{}
	for range 50 {
		lines = append(lines, line{"start", "a", 900, 0}, line{"end", "a", 900, 0})
	}
	run(t, append(lines, []line{
		{"start", "b", 900, 0},
		{"expect", "b", 0, 900},
		{"reach", "b", 899, 900},
		{"reach", "b", 900, 900},
		{"reach", "b", 950, 950},
		{"end", "b", 950, 0},
		{"start", "c", 600, 0},
		{"expect", "c", 0, 600},
		{"reach", "c", 599, 600},
		{"end", "c", -5, 0},
		{"start", "d", 0, 0},
		{"expect", "d", 0, 0},
		{"reach", "d", -1, 0},
		{"reach", "d", 3, 3},
		{"end", "d", 3, 0},
	}...))
}

// Seen to fail with: s.node kept in End.
func TestEndTwice(t *testing.T) {
	b := New(Config{})
	s := b.Start(someKind, 100)
	b.End(&s, 50, true)
	before := b.nodes[1]
	b.End(&s, 70, true)
	b.End(&Stream{}, 70, true)
	if b.nodes[1].whole != before.whole || b.nodes[1].pins != before.pins {
		t.Fatalf("the second end counts: %d completions, %d pins", b.nodes[1].whole, b.nodes[1].pins)
	}
	if got := b.Reach(&s, 60); got != 100 {
		t.Errorf("a call that has ended is expected to get %d, want its most", got)
	}
}

// A call may take more than there are bins for.
func TestLongerThanAllBins(t *testing.T) {
	b := New(Config{Enough: 1})
	const most = int64(1) << 50
	for range 100 {
		s := b.Start(someKind, most)
		b.Reach(&s, longest+5)
		b.End(&s, longest*8, true)
	}
	s := b.Start(someKind, most)
	if got := b.Reach(&s, longest*2); got < longest*8 || got > most {
		t.Errorf("after %d of %d, as all others ended at %d: %d", longest*2, most, longest*8, got)
	}
}

// To ask on behalf of nobody answers what a call would be told that came so far, and
// changes nothing.
func TestReachOf(t *testing.T) {
	b := New(Config{})
	if got := b.ReachOf(someKind, 1000, 40); got != 1000 {
		t.Errorf("of what is not known it says %d, want the most", got)
	}
	for i := range int64(500) {
		s := b.Start(someKind, 1000)
		b.End(&s, 100+i, true)
	}
	var asked []int64
	for range 2 {
		for _, n := range []int64{-1, 0, 90, 300, 590, 900, 2000} {
			asked = append(asked, b.ReachOf(someKind, 1000, n))
		}
	}
	s := b.Start(someKind, 1000)
	for i, n := range []int64{-1, 0, 90, 300, 590, 900, 2000} {
		told := b.Reach(&s, n)
		if asked[i] != asked[i+7] || asked[i] < told*99/100 || asked[i] > told*101/100 {
			t.Errorf("at %d it says %d and then %d, a call is told %d", n, asked[i], asked[i+7], told)
		}
	}
	if b.ReachOf(someKind, 1000, 0) != b.ExpectOf(someKind, 1000) {
		t.Error("a call that has produced nothing is one that has not begun")
	}
}

// Every length is in the bin whose floor is the last not above it, and no bin is
// wider than an eighth of its floor.
//
// Seen to fail with: floorOf from 7 instead of perOctave; longest left out of binOf.
func TestBins(t *testing.T) {
	last := binOf(longest)
	for b := range last {
		lo := floorOf(b)
		next := floorOf(b + 1)
		if binOf(lo) != b || binOf(next-1) != b || binOf(next) != b+1 {
			t.Fatalf("bin %d is %d … %d, but these are in %d, %d, and the next in %d", b, lo, next-1, binOf(lo), binOf(next-1), binOf(next))
		}
		if next-lo > max(1, lo/perOctave) {
			t.Fatalf("bin %d is %d … %d, wider than an eighth", b, lo, next-1)
		}
	}
	for _, x := range []int64{longest, longest + 1, 1 << 40, 1<<63 - 1} {
		if binOf(x) != last {
			t.Errorf("%d is in bin %d, not in the last, %d", x, binOf(x), last)
		}
	}
	if got := binOf(-5); got != 0 {
		t.Errorf("-5 is in bin %d", got)
	}
}

// A table that takes the steps beyond a kind's own calls from its parent is the one that would come of all bins, to the
// last bit.
//
// Seen to fail with: top left as it is in advance; parent.most == n.most left out; top-1 in build; edge without the parent's; edge+1
// left out of risk; tail left as it is when a greater most comes, or 0 in a
// place that is used again.
func TestStepsOfTheParentAreOnesOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(Config{
			Enough:   1,
			HalfLife: int64(rapid.IntRange(1, 30).Draw(t, "half-life")),
			MaxKinds: rapid.SampledFrom([]int{defaultKinds, 7}).Draw(t, "most kinds"), // with few, places are used again
		})
		kinds := []Kind{{"a", "x", "m"}, {"b", "x", "m"}, {"c", "y", "m"}}
		var calls []Stream
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if len(calls) == 0 || rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				most := rapid.SampledFrom([]int64{4096, 4096, 4096, 3000, 0}).Draw(t, "most")
				calls = append(calls, b.Start(rapid.SampledFrom(kinds).Draw(t, "kind"), most))
			} else {
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "call")
				length := rapid.Int64Range(0, calls[i].most).Draw(t, "length") / rapid.Int64Range(1, 100).Draw(t, "part")
				if rapid.Bool().Draw(t, "runs on") {
					b.Reach(&calls[i], length)
				} else {
					b.End(&calls[i], length, rapid.IntRange(0, 3).Draw(t, "whole") > 0)
					calls = slices.Delete(calls, i, i+1)
				}
			}
			for i := 1; i < len(b.nodes); i++ {
				sameByAllBins(t, b, int32(i))
			}
		}
	})
}

// sameByAllBins builds the tables of a node and those above it in both ways, and leaves them as they were.
func sameByAllBins(t *rapid.T, b *Book, i int32) {
	defer b.restore(b.keep(i))
	b.buildChain(i)
	short := b.steps(i)
	for at := i; at != 0; at = b.nodes[at].parent {
		b.nodes[at].top = binOf(int64(1) << b.nodes[at].key.most)
		b.nodes[at].reach(b.nodes[at].top)
	}
	b.buildChain(i)
	if all := b.steps(i); !slices.EqualFunc(short, all, sameStep) {
		t.Fatalf("of %v: %v\nby all bins: %v", b.nodes[i].key, short, all)
	}
}

// buildChain builds the tables of a node and of those above it, the highest first.
func (b *Book) buildChain(i int32) {
	if i != 0 {
		b.buildChain(b.nodes[i].parent)
		b.build(i)
	}
}

// steps are all steps of a node, with their risks.
func (b *Book) steps(i int32) []step {
	all := make([]step, binOf(int64(1)<<b.nodes[i].key.most)+1)
	for bin := range all {
		all[bin] = b.step(i, bin)
	}
	return all
}

// sameStep reports whether two steps are the same to the last bit, but for risks, which are sums.
func sameStep(a, b step) bool {
	near := math.Abs(a.risk-b.risk) < 1e-9
	a.risk = b.risk
	return near && a == b
}

// Seen to fail with: strings.Clone in keyOf.
func TestNothingAllocates(t *testing.T) {
	b := New(Config{})
	teach(b, someKind, 4096, 300, 100)
	n := int64(0)
	for name, f := range map[string]func(){
		"call": func() {
			s := b.Start(someKind, 4096)
			b.Expect(&s)
			for p := int64(0); p < 500+n%500; p += 30 {
				b.Reach(&s, p)
			}
			n += 37
			b.End(&s, 500+n%500, n%3 > 0)
		},
		"of a kind": func() { b.ReachOf(someKind, 4096, 300) },
		"unknown":   func() { b.ReachOf(Kind{Model: "x"}, 4096, 300) },
	} {
		if got := testkit.Allocs(t, 2000, f); got != 0 {
			t.Errorf("%s: %d allocations", name, got)
		}
	}
}
