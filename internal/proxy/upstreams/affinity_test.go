package upstreams

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lib/affinity"
)

// conversations are many of them.
func conversations(n int) (list []affinity.Conversation) {
	for i := range n {
		list = append(list, affinity.ConversationOf("acme", uint64(i)))
	}
	return list
}

// chosen is the member chosen for a call that ends at once.
func chosen(s *Set, now time.Time, of affinity.Conversation) *Member {
	m := s.Members[s.Choose(now, s.All(), Scope{}, of).Index]
	m.Leave()
	return m
}

// All gateways send a conversation to the same upstream, in whatever order their configurations list them, and
// whatever ran there before.
func TestAffinity_SameAtAllGateways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Spec
		for i, w := range rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 16).Draw(t, "weights") {
			list = append(list, Spec{Name: "up" + strconv.Itoa(i), Weight: w})
		}
		one := New(list, nil)
		other := New(rapid.Permutation(list).Draw(t, "list"), nil)
		for range rapid.IntRange(0, 5).Draw(t, "calls before") {
			chosen(other, t0, affinity.None)
		}
		for _, of := range conversations(50) {
			a := chosen(one, t0, of)
			b := chosen(other, t0, of)
			if a.Name != b.Name {
				t.Fatalf("conversation %x goes to %s at one gateway, to %s at another", of, a.Name, b.Name)
			}
		}
	})
}

// A conversation whose home is paused goes to the next in its order, and home again after. Calls that left do not count.
func TestAffinity_Failover(t *testing.T) {
	s := setOf(1, 1, 1, 1)
	of := conversations(1)[0]
	goesTo := func(at time.Duration) string {
		return chosen(s, t0.Add(at), of).Name
	}
	first := chosen(s, t0, of)
	first.Report(t0, Result{Outcome: Busy, Told: Told{Retry: 10 * time.Second}})
	second := goesTo(time.Second)
	if second == first.Name || goesTo(9*time.Second) != second {
		t.Errorf("while %s is paused, the conversation goes to %s and %s", first.Name, second, goesTo(9*time.Second))
	}
	if got := goesTo(10 * time.Second); got != first.Name {
		t.Errorf("behind the pause it goes to %s, want its home %s", got, first.Name)
	}
	for range 4 {
		s.Choose(t0.Add(11*time.Second), Mask(0).With(slices.Index(s.Members, first)), Scope{}, of)
	}
	if got := goesTo(11 * time.Second); got != second {
		t.Errorf("beside four calls at %s and none elsewhere it goes to %s, want %s", first.Name, got, second)
	}
	for range 4 {
		first.Leave()
	}
	if got := goesTo(12 * time.Second); got != first.Name {
		t.Errorf("behind these calls it goes to %s, want its home %s", got, first.Name)
	}
}

// Orders come first: a conversation goes to a spare upstream only while none of a lower order is ready.
func TestAffinity_Order(t *testing.T) {
	s := New([]Spec{{Name: "a", Weight: 1}, {Name: "spare", Weight: 1, Order: 1}}, nil)
	for _, of := range conversations(100) {
		if m := chosen(s, t0, of); m.Name != "a" {
			t.Fatalf("conversation %x goes to the spare upstream", of)
		}
	}
}
