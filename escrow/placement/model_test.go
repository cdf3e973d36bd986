package placement

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/test/testkit/mutation"
)

// playground is a small world, in which all that can happen is tried: gateways that share the limits of two upstreams place
// calls of one token each, which end, move, or are lost with their gateway, while time passes and the configuration changes.
type playground struct {
	name      string
	via       []string // which upstreams calls may use, by their names
	holds     bool     // the provider counts tokens when calls end
	gateways  int
	calls     int
	exchanges int // of parts of the limits
	moves     int
	reloads   []string        // lists of upstreams, each put in force once
	jumps     []time.Duration // that may pass, each once
	crash     bool            // a gateway may be lost, and another takes its place
	close     bool            // an upstream may be closed at a gateway
}

// step is something that happens in a small world.
type step struct {
	kind kind
	at   int // a gateway, or a call
	with int // how
}

type kind string

const (
	offer    kind = "offer"
	settle   kind = "settle"
	move     kind = "move"
	exchange kind = "exchange"
	reload   kind = "reload"
	pass     kind = "pass"
	crash    kind = "crash"
	shut     kind = "close"
)

func (s step) String() string { return fmt.Sprint(s.kind, " ", s.at, " ", s.with) }

// search visits the states of a playground, each once, those that take the fewest steps first. States are not copied: the steps
// that lead to one are taken anew.
type search struct {
	*playground
	seen map[[32]byte]struct{}
	most int
}

// run reports what is wrong after which steps; "" if nothing is.
func (s *search) run() string {
	paths := [][]step{nil}
	for len(paths) > 0 && len(s.seen) < s.most {
		path := paths[0]
		paths = paths[1:]
		for _, next := range s.after(path).steps() {
			longer := append(append(make([]step, 0, len(path)+1), path...), next)
			w := s.after(longer)
			key := sha256.Sum256([]byte(w.key()))
			if _, there := s.seen[key]; there {
				continue
			}
			s.seen[key] = struct{}{}
			if wrong := w.wrong(); wrong != "" {
				return fmt.Sprintf("%s after\n%s\n%s", wrong, strings.Trim(fmt.Sprint(longer), "[]"), w.key())
			}
			paths = append(paths, longer)
		}
	}
	return ""
}

// after is the state after some steps.
func (s *search) after(path []step) *small {
	w := newSmall(s.playground)
	for _, next := range path {
		w.take(next)
	}
	return w
}

// TestModel: whatever happens in a small world, no upstream gets more than its limits, however late the provider counts, no call goes to one
// that it may not use or that is closed, and nobody waits for an upstream that has room for it.
func TestModel(t *testing.T) {
	most := 1_000
	switch {
	case *wholeSearch:
		most = 300_000
	case testing.Short():
		most = 300
	}
	minute := []time.Duration{61 * time.Second}
	halves := []time.Duration{30 * time.Second, 31 * time.Second}
	any := []string{"ab", "a", "b"}
	first := []string{"a"}
	for _, g := range []playground{
		{name: "one", gateways: 1, via: any, calls: 4, jumps: halves},
		{name: "one, counted late", gateways: 1, via: first, calls: 4, jumps: halves, holds: true},
		{name: "moves", gateways: 1, via: any, calls: 3, moves: 2, jumps: minute},
		{name: "moves, counted late", gateways: 1, via: any, calls: 3, moves: 2, jumps: minute, holds: true},
		{name: "reloads", gateways: 1, via: any, calls: 3, moves: 1, reloads: []string{"ba", "b", "ab"}},
		{name: "reloads, counted late", gateways: 1, via: first, calls: 3, reloads: []string{"ba"}, jumps: minute, holds: true},
		{name: "left out", gateways: 1, via: first, calls: 3, reloads: []string{"b", "ab"}, jumps: minute},
		{name: "closed", gateways: 1, via: any, calls: 3, moves: 1, close: true, reloads: []string{"ba"}},
		{name: "two", gateways: 2, via: any, calls: 3, exchanges: 3, jumps: minute},
		{name: "two, counted late", gateways: 2, via: first, calls: 4, exchanges: 3, jumps: minute, holds: true},
		{name: "lost", gateways: 2, via: first, calls: 4, exchanges: 3, jumps: minute, crash: true},
		{name: "lost, counted late", gateways: 2, via: any, calls: 3, exchanges: 3, jumps: minute, crash: true, holds: true},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := &search{playground: &g, seen: map[[32]byte]struct{}{}, most: most}
			wrong := s.run()
			t.Logf("%d states, all: %v, %v", len(s.seen), len(s.seen) < s.most, time.Since(began).Round(time.Millisecond))
			if wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// An upstream that was closed for a while gets its part of the calls afterwards, and not all that it has missed, however large the weights
// are that say the same.
func TestTurns_NoCatchingUp(t *testing.T) {
	for _, unit := range []int64{1, 200} {
		b := booksOf([]Spec{{Name: "small", Weight: unit}, {Name: "large", Weight: 3 * unit}})
		slot := uint32(0)
		begin := func(calls int) (small int) {
			for range calls {
				at, ok := b.Choose(t0, b.Mask(0), escrow.Cost{1, 1}, 0)
				if !ok {
					t.Fatal("no upstream has room")
				}
				b.Begin(t0, slot, at, escrow.Cost{1, 1})
				slot++
				if at == 0 {
					small++
				}
			}
			return small
		}
		b.List[0].Closed = t0.Add(time.Minute)
		begin(400)
		b.List[0].Closed = time.Time{}
		if small := begin(40); small < 10 || small > 11 {
			t.Errorf("with weights of %d and %d, the small one gets %d of 40 calls, want 10", unit, 3*unit, small)
		}
	}
}

// mutants are the rules one by one, each of which TestModel was seen to miss when it was broken.
var mutants = []mutation.Mutant{
	{Rule: "a call is booked at its upstream", File: "books.go", Old: "hold: u.Limits.Book(now, CostOf(c), b.holds)", New: "hold: u.Limits.Book(now, limits.Cost{}, b.holds)"},
	{Rule: "and at no other", File: "books.go", Old: "	u := b.List[index]\n", New: "	u := b.List[(index+1)%len(b.List)]\n"},
	{Rule: "what a call took counts where it ran", File: "books.go", Old: "u.Limits.Settle(now, &c.hold, CostOf(actual), ran)", New: "b.List[0].Limits.Settle(now, &c.hold, CostOf(actual), ran)"},
	{Rule: "a call that ends gives back what it did not take", File: "books.go", Old: "CostOf(actual), ran)", New: "CostOf(escrow.Cost{escrow.Tokens: 1}), ran)"},
	{Rule: "and keeps what it took", File: "books.go", Old: "CostOf(actual), ran)", New: "limits.Cost{}, ran)"},
	{Rule: "what is counted late counts until a call ends", File: "account.go", Old: "	if holds {", New: "	if false && holds {"},
	{Rule: "also after a reload", File: "change.go", Old: "next := &Books[L]{holds: c.Holds}", New: "next := &Books[L]{holds: c.Holds && b == nil}"},
	{Rule: "an upstream without room gets no call", File: "account.go", Old: "return axis, !fits", New: "return axis, fits && false"},
	{Rule: "one that is closed gets none", File: "upstream.go", Old: "	if now.Before(u.Closed) {\n		return limits.Tokens, true\n	}\n", New: ""},
	{Rule: "a call goes only where it may", File: "books.go", Old: "for left := among; left != 0; left &= left - 1 {", New: "for left := escrow.Mask(1)<<len(b.List) - 1; left != 0; left &= left - 1 {"},
	{Rule: "calls are known after a reload", File: "change.go", Old: "next.calls = b.calls", New: "_ = b.calls"},
	{Rule: "limits are known after a reload", File: "change.go", Old: "u := b.named(spec.Name)", New: "u := (*Upstream[L])(nil)"},
	{Rule: "also of an upstream that was left out for a while", File: "change.go", Old: "b.gone = append(b.gone, u)", New: "_ = u"},
	{Rule: "calls that wait keep their upstreams when the list is another", File: "change.go", Old: "at = slices.Index(b.List, u)", New: "at = slices.Index(before.List, u)"},
	{Rule: "of several only those that are left", File: "change.go", Old: "m.To = append(m.To, at)", New: "m.To = append(m.To, min(at, -1))"},
}

// TestMutants breaks each rule, in the source itself, and runs the search that has to fail.
// Without -mutants it only sees that the source is as the table says.
func TestMutants(t *testing.T) {
	for i := range mutants {
		mutants[i].Test = "TestModel"
	}
	mutation.Run(t, *tryMutants, mutants)
}

var (
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	tryMutants  = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)

var t0 = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// booksOf are the books of some upstreams, in whose limits nothing is used.
func booksOf(list []Spec) *Books[Account] {
	open := func(string) Account { return Account{limits.New(false, nil)} }
	b := (*Books[Account])(nil).Next(t0, Config{Upstreams: list}, open)
	for _, u := range b.List {
		u.Limits.Configure(t0, limits.Limits{Minute: limits.Cost{limits.Tokens: u.TPM}, Concurrency: u.Concurrency}, 0)
	}
	return b
}

// specs are up to 8 upstreams of up to 3 orders, with limits on tokens and calls.
func specs(t *rapid.T) (list []Spec) {
	for i, order := range rapid.SliceOfN(rapid.Int64Range(0, 2), 1, 8).Draw(t, "orders") {
		list = append(list, Spec{
			Name: "up" + strconv.Itoa(i), Order: order, Weight: rapid.Int64Range(1, 5).Draw(t, "weight"),
			TPM: rapid.Int64Range(0, 10).Draw(t, "tpm") * 1000, Concurrency: rapid.Int64Range(0, 3).Draw(t, "concurrency"),
		})
	}
	return list
}

// A call of a conversation goes where there is room if there is room at all, and to no higher order than others go: first come those
// of the lowest order, whatever the conversation would rather have.
func TestAffinity_TakesNothingFromOrdersAndRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := booksOf(specs(t))
		all := b.Mask(0)
		cost := escrow.Cost{escrow.Tokens: rapid.Int64Range(1, 3000).Draw(t, "tokens"), escrow.Requests: 1}
		for slot := range uint32(rapid.IntRange(1, 30).Draw(t, "calls")) {
			of := affinity.ConversationOf("acme", rapid.Uint64Range(0, 3).Draw(t, "conversation"))
			other, room := b.Choose(t0, all, cost, 0)
			at, ok := b.Choose(t0, all, cost, uint64(of))
			if ok != room {
				t.Fatalf("with a conversation there is room: %v, without: %v", ok, room)
			}
			if !ok {
				return
			}
			if b.List[at].Order != b.List[other].Order {
				t.Fatalf("it goes to order %d, others to %d", b.List[at].Order, b.List[other].Order)
			}
			if _, lacks := b.List[at].lacks(t0, CostOf(cost)); lacks {
				t.Fatalf("it goes to upstream %d, which has no room", at)
			}
			b.Begin(t0, slot, at, cost)
		}
	})
}

// While its upstream has room, a conversation stays there, call after call, at all gateways; when that is full it goes on elsewhere, and
// comes back.
func TestAffinity_Stays(t *testing.T) {
	list := []Spec{{Name: "a", Weight: 1, Concurrency: 1}, {Name: "b", Weight: 1, Concurrency: 1}, {Name: "c", Weight: 1, Concurrency: 1}}
	one := booksOf(list)
	other := booksOf([]Spec{list[2], list[0], list[1]})
	cost := escrow.Cost{escrow.Tokens: 10, escrow.Requests: 1}
	homes := map[string]bool{}
	for id := range uint64(20) {
		of := uint64(affinity.ConversationOf("acme", id))
		goesTo := func(b *Books[Account], slot uint32) string {
			at, ok := b.Choose(t0, b.Mask(0), cost, of)
			if !ok {
				t.Fatal("there is room, and none is found")
			}
			b.Begin(t0, slot, at, cost)
			return b.List[at].Name
		}
		home := goesTo(one, 1)
		homes[home] = true
		if full := goesTo(one, 2); full == home {
			t.Errorf("conversation %d goes to %s, which is full", id, full)
		}
		one.End(t0, 1, cost)
		one.End(t0, 2, cost)
		for range 3 {
			a := goesTo(one, 1)
			one.End(t0, 1, cost)
			b := goesTo(other, 1)
			other.End(t0, 1, cost)
			if a != home || b != home {
				t.Errorf("conversation %d goes to %s, then to %s, at another gateway to %s", id, home, a, b)
			}
		}
	}
	if len(homes) != 3 {
		t.Errorf("20 conversations go to %d upstreams of 3", len(homes))
	}
}
