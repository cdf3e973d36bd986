package lengths

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// check says what is wrong with a Book's chains and pins, if these calls run.
func check(b *Book, calls ...Stream) error {
	if len(b.nodes)-1 > b.cfg.MaxKinds || len(b.index) > b.cfg.MaxKinds {
		return fmt.Errorf("%d nodes, %d names, at most %d", len(b.nodes)-1, len(b.index), b.cfg.MaxKinds)
	}
	pins := make([]int32, len(b.nodes)) // calls and children of each
	for i := range calls {
		pins[calls[i].node]++
	}
	for k, i := range b.index {
		if b.nodes[i].key != k {
			return fmt.Errorf("node %d is %v and found as %v", i, b.nodes[i].key, k)
		}
		pins[b.nodes[i].parent]++
	}
	idle := 0
	learned := 0
	for _, l := range []*list{&b.novices, &b.experts} {
		n := 0
		prev := int32(0)
		for i := l.first; i != 0; i = b.nodes[i].next {
			if b.nodes[i].prev != prev || b.nodes[i].list != l || b.nodes[i].pins != 0 {
				return fmt.Errorf("node %d stands in a list and should not", i)
			}
			prev = i
			n++
		}
		if l.last != prev {
			return fmt.Errorf("a list ends at %d and says %d", prev, l.last)
		}
		idle += n
	}
	for k, i := range b.index {
		n := &b.nodes[i]
		if n.pins != pins[i] || k.level == 0 && int64(n.pins) != n.running {
			return fmt.Errorf("%v has %d pins and %d calls; %d calls and children are there", k, n.pins, n.running, pins[i])
		}
		if n.pins == 0 {
			idle--
		}
		if n.whole >= b.cfg.Enough {
			learned++
		}
	}
	if learned != b.learned {
		return fmt.Errorf("%d nodes had enough, %d are counted", learned, b.learned)
	}
	if idle != 0 {
		return fmt.Errorf("%d more idle than unpinned", idle)
	}
	return nil
}

func teach(b *Book, k Kind, most, length int64, calls int) {
	for range calls {
		s := b.Start(k, most)
		b.End(&s, length, true)
	}
}

// A million made-up names take no more memory than MaxKinds, and do not make a
// Book forget what it has learned.
//
// Seen to fail with: delete left out of room; idle that puts all into one list;
// names not cut.
func TestMillionNames(t *testing.T) {
	testkit.Long(t, "learns a million kinds")
	names := 1_000_000
	if testing.Short() || testkit.Race {
		names = 50_000
	}
	b := New(Config{MaxKinds: 300})
	teach(b, someKind, 4096, 100, 100)
	long := strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	for i := range names {
		if i == names/2 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		k := Kind{"acme", "gold", fmt.Sprintf("%d%s", i, long[:i%7])}
		if i%1000 == 0 {
			k.Model = fmt.Sprintf("%s%d", long, i) // these are all one, by their first 256 bytes
		}
		s := b.Start(k, 4096)
		b.Reach(&s, 50)
		b.End(&s, 60, true)
		if n := len(b.nodes[i%len(b.nodes)].key.kind.Model); n > maxName {
			t.Fatalf("a name of %d bytes is kept", n)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	testkit.OK(t, check(b))
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("half a million names took %d kB", grown>>10)
	}
	if got := expect(b, someKind, 4096); got > 110 {
		t.Errorf("what was learned before is forgotten: %d", got)
	}
}

// Who learned makes room for who learns, when too many have.
//
// Seen to fail with: 3/4 → 9/4 in room.
func TestExpertsLeaveAQuarter(t *testing.T) {
	b := New(Config{MaxKinds: 40})
	for i := range 100 {
		teach(b, Kind{"t", "x", fmt.Sprint(i)}, 64, 10, 30)
	}
	testkit.OK(t, check(b))
	if got := expect(b, Kind{"t", "x", "99"}, 64); got > 12 {
		t.Errorf("the last to come learned nothing: %d", got)
	}
	if got := expect(b, Kind{"t", "x", "0"}, 64); got != 64 {
		t.Errorf("the first to come is still known: %d", got)
	}
	for i := range 100 { // three that learn in turns
		teach(b, Kind{"t", "x", fmt.Sprint("new", i%3)}, 64, 10, 1)
	}
	if got := expect(b, Kind{"t", "x", "new1"}, 64); got > 12 {
		t.Errorf("three that learn in turns evict each other: %d", got)
	}
}

// Kinds with calls running stay. Where they take every place, others learn one
// level up, and who has nothing above is booked at most.
//
// Seen to fail with: pin left out of Start.
func TestRunningKindsStay(t *testing.T) {
	b := New(Config{MaxKinds: 5})
	teach(b, Kind{"a", "x", "m"}, 64, 10, 40)
	var calls []Stream
	for i := range 10 { // two find a place, beside tier and model
		calls = append(calls, b.Start(Kind{fmt.Sprint(i), "x", "m"}, 64))
	}
	other := b.Start(Kind{"a", "x", "another"}, 64)
	testkit.OK(t, check(b, append(calls, other)...))
	if got := b.Reach(&other, 5); got != 64 || other.node != 0 {
		t.Errorf("a model without a place is expected to get %d", got)
	}
	up := 0
	for i := range calls {
		if b.nodes[calls[i].node].key.level == 1 {
			up++
		}
		if got := b.Reach(&calls[i], 5); got > 20 {
			t.Errorf("call %d: its tier knows better than %d", i, got)
		}
	}
	if up != 7 {
		t.Errorf("%d calls learn at their tier, want 7", up)
	}
	for i := range calls {
		b.End(&calls[i], 10, true)
	}
	b.End(&other, 10, true)
	if b.find(keyOf(Kind{Model: "m"}, 64), &b.latest) != 0 && b.nodes[b.index[key{kind: Kind{Model: "m"}, level: 2, most: 6}]].running != 0 {
		t.Error("all have ended, and some run")
	}
}

// A copy of a call that has ended changes nothing of the kind that has its place.
//
// Seen to fail with: gen not compared in runs.
func TestStaleStream(t *testing.T) {
	b := New(Config{MaxKinds: 3})
	s := b.Start(someKind, 64)
	stale := s
	b.End(&s, 10, true)
	teach(b, Kind{"b", "y", "other"}, 1<<20, 10, 30)
	before := append([]node(nil), b.nodes...)
	if got := b.Reach(&stale, 20); got != 64 {
		t.Errorf("a stale call is expected to get %d", got)
	}
	b.End(&stale, 30, true)
	for i := range before {
		if before[i].whole != b.nodes[i].whole || before[i].running != b.nodes[i].running {
			t.Fatalf("node %d learned of a call that was another's", i)
		}
	}
	testkit.OK(t, check(b))
}

// Kinds of all lengths come and go with calls running, some are only looked at, and the
// books stay in order.
//
// Seen to fail with: unpin of the parent left out of room; pin of the parent left
// out of learn; a place that keeps the table that was built for who only looked.
func TestChurn(t *testing.T) {
	b := New(Config{MaxKinds: 20, Enough: 2})
	r := newRand(9)
	var calls []Stream
	for range 20_000 {
		if len(calls) == 0 || r.IntN(2) == 0 && len(calls) < 40 {
			k := Kind{fmt.Sprint(r.IntN(8)), fmt.Sprint(r.IntN(2)), fmt.Sprint(r.IntN(4))}
			calls = append(calls, b.Start(k, int64(1)<<r.IntN(40)))
		}
		i := r.IntN(len(calls))
		b.Looking(r.IntN(4) == 0)
		b.Reach(&calls[i], r.Int64N(3000))
		b.Looking(false)
		if r.IntN(2) == 0 {
			b.End(&calls[i], r.Int64N(3000), r.IntN(2) == 0)
			calls[i] = calls[len(calls)-1]
			calls = calls[:len(calls)-1]
		}
		testkit.OK(t, check(b, calls...))
	}
}

// The node that is looked for at a place first is the one that the index has, also after evictions.
func TestBook_AtIsTheIndex(t *testing.T) {
	b := New(Config{MaxKinds: 9})
	var place Place
	same := func(k key) {
		t.Helper()
		if got := b.at(k, &place); got != b.index[k] {
			t.Fatalf("%+v is node %d, not %d", k, got, b.index[k])
		}
	}
	s := b.Start(Kind{}, 1)
	same(key{})
	b.End(&s, 1, true)
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"", "a", "b", "c"}
	draw := func() key {
		return keyOf(Kind{Tenant: names[rnd.IntN(4)], Tier: names[rnd.IntN(2)], Model: names[rnd.IntN(4)]}, 1<<rnd.IntN(3))
	}
	for range 5000 {
		k := draw()
		s := b.Start(k.kind, 1<<k.most)
		b.End(&s, 1, true)
		for range 3 {
			k := draw()
			same(k)
			same(k)
		}
	}
}

// Of many kinds those are written down on which others build, and of these the ones that have seen most calls.
func TestLessons_Bounded(t *testing.T) {
	b := New(Config{Enough: 1})
	for i := range int64(200) {
		for range i + 1 {
			s := b.Start(Kind{Tenant: fmt.Sprint(i), Tier: "pro", Model: "m"}, 100)
			b.End(&s, 10, true)
		}
	}
	list := b.Lessons()
	if len(list) != mostLessons {
		t.Fatalf("%d kinds are written down, of %d", len(list), len(b.index))
	}
	for i, l := range list {
		want := Lesson{Level: 0, Whole: int64(202 - i)} // of the tenants that came most
		if i < 2 {
			want = Lesson{Level: uint8(2 - i), Whole: 200 * 201 / 2}
		}
		if l.Level != want.Level || l.Whole != want.Whole || len(l.Bins) == 0 {
			t.Errorf("%d is %+v, want level %d and %d completions", i, l, want.Level, want.Whole)
		}
	}
}

// TestRecall: what a Book tells is expected by the next one as by itself, at all levels, through JSON. Calls that run count as cut off, and
// what no Book can have learned is left out.
func TestRecall(t *testing.T) {
	b := New(Config{})
	kind := func(tenant string) Kind { return Kind{Tenant: tenant, Tier: "pro", Model: "m"} }
	for i := range int64(300) {
		short := b.Start(kind("short"), 64_000)
		b.End(&short, 90+i%20, true)
		long := b.Start(kind("long"), 64_000)
		b.End(&long, 4000+i%50*40, true)
	}
	running := b.Start(kind("long"), 64_000)
	b.Reach(&running, 5000)
	text, err := json.Marshal(append(b.Lessons(), Lesson{Level: 7}, Lesson{Kind: kind("odd"), Most: 10, Whole: 30, Bins: make([][3]float64, 999)}))
	if err != nil {
		t.Fatal(err)
	}
	var list []Lesson
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	next := New(Config{})
	next.Recall(list)
	for _, tenant := range []string{"short", "long", "new"} {
		was := b.ExpectOf(kind(tenant), 64_000)
		is := next.ExpectOf(kind(tenant), 64_000)
		if is < was*95/100 || is > was*105/100 {
			t.Errorf("%s: %d tokens are expected, and %d were", tenant, is, was)
		}
	}
	if got := next.ExpectOf(kind("odd"), 10); got != 10 {
		t.Errorf("of what is not known %d of 10 are expected", got)
	}
	if s := next.Stats(); s.Running != 0 || next.learned != 4 {
		t.Errorf("%d run, and %d are known", s.Running, next.learned)
	}
	for i := range int64(300) { // it goes on learning
		short := next.Start(kind("short"), 64_000)
		next.End(&short, 90+i%20, true)
		long := next.Start(kind("long"), 64_000)
		next.End(&long, 4000+i%50*40, true)
	}
	if s := next.Stats(); s.Doubts != 0 {
		t.Errorf("it is doubted %d times though nothing has changed", s.Doubts)
	}
}
