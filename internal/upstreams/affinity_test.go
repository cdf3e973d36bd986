package upstreams

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// conversations are many of them.
func conversations(n int) (list []Conversation) {
	for i := range n {
		list = append(list, ConversationOf("acme", hashOf(strconv.Itoa(i))))
	}
	return list
}

// chosen is the member chosen for a call that ends at once.
func chosen(s *Set, now time.Time, of Conversation) *Member {
	m := s.Members[s.Choose(now, s.All(), of).Index]
	m.Leave()
	return m
}

// candidates are some with random weights and, if busy, calls in flight.
func candidates(t *rapid.T, busy bool) (list []candidate) {
	for i, w := range rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 16).Draw(t, "weights") {
		c := candidate{index: i, seed: hashOf("up" + strconv.Itoa(i)), weight: w}
		if busy {
			c.running = rapid.Int64Range(0, 200).Draw(t, "running")
		}
		list = append(list, c)
	}
	return list
}

// When an upstream leaves, only its own conversations move; when it comes back, they come back.
func TestAffinity_MovesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := candidates(t, false)
		gone := rapid.IntRange(0, len(all)-1).Draw(t, "gone")
		left := slices.Delete(slices.Clone(all), gone, gone+1)
		for _, of := range conversations(200) {
			before := home(all, of).index
			if len(left) > 0 && before != gone && home(left, of).index != before {
				t.Fatalf("upstream %d left, and conversation %x moved from %d to %d", gone, of, before, home(left, of).index)
			}
		}
	})
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
			chosen(other, t0, None)
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

// Each upstream is the home of its part of the conversations, by weight, within five standard deviations.
func TestAffinity_Weights(t *testing.T) {
	all := conversations(20_000)
	for _, weights := range [][]int64{{1}, {1, 1}, {3, 1}, {5, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8}, {1000, 1}} {
		total := int64(0)
		var list []candidate
		for i, w := range weights {
			total += w
			list = append(list, candidate{index: i, seed: hashOf("up" + strconv.Itoa(i)), weight: w})
		}
		got := make([]float64, len(weights))
		for _, of := range all {
			got[home(list, of).index]++
		}
		for i, w := range weights {
			part := float64(w) / float64(total)
			want := part * float64(len(all))
			if most := 5*math.Sqrt(want*(1-part)) + 1; math.Abs(got[i]-want) > most {
				t.Errorf("of weights %v, %d is the home of %.0f conversations, want %.0f ± %.0f", weights, w, got[i], want, most)
			}
		}
	}
}

// No conversation is sent where that upstream would have more than its part of the calls in flight by a quarter and one
// call, however many calls are whose; and one is sent home if there is room.
func TestAffinity_Bound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := candidates(t, true)
		running := int64(1)
		weights := int64(0)
		idle := slices.Clone(list)
		for i, c := range list {
			running += c.running
			weights += c.weight
			idle[i].running = 0
		}
		most := func(c candidate) int64 {
			return int64(math.Ceil(1.25*float64(running)*float64(c.weight)/float64(weights))) + 1
		}
		for _, of := range conversations(50) {
			c := home(list, of)
			if c.weight == 0 {
				t.Fatalf("conversation %x goes nowhere", of)
			}
			if c.running+1 > most(c) {
				t.Fatalf("conversation %x goes to one of weight %d of %d with %d of %d calls", of, c.weight, weights, c.running, running)
			}
			if h := list[home(idle, of).index]; h.running+1 <= most(h) && h.index != c.index {
				t.Fatalf("conversation %x goes to %d, although its home %d has room", of, c.index, h.index)
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
		s.Choose(t0.Add(11*time.Second), Mask(0).With(slices.Index(s.Members, first)), of)
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
	s := New([]Spec{{Name: "a", Weight: 1}, {Name: "spare", Weight: 1000, Order: 1}}, nil)
	for _, of := range conversations(100) {
		if m := chosen(s, t0, of); m.Name != "a" {
			t.Fatalf("conversation %x goes to the spare upstream", of)
		}
	}
}
