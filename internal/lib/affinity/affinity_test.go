package affinity

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// conversations are many of them.
func conversations(n int) (list []Conversation) {
	for i := range n {
		list = append(list, ConversationOf("acme", hashOf(strconv.Itoa(i))))
	}
	return list
}

// candidates are some with random weights and, if busy, calls in flight.
func candidates(t *rapid.T, busy bool) (list []Candidate) {
	for i, w := range rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 16).Draw(t, "weights") {
		c := Candidate{Index: i, Seed: hashOf("up" + strconv.Itoa(i)), Weight: w}
		if busy {
			c.Running = rapid.Int64Range(0, 200).Draw(t, "running")
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
			before := Home(all, of).Index
			if len(left) > 0 && before != gone && Home(left, of).Index != before {
				t.Fatalf("upstream %d left, and conversation %x moved from %d to %d", gone, of, before, Home(left, of).Index)
			}
		}
	})
}

// Each upstream is the home of its part of the conversations, by weight, within five standard deviations.
func TestAffinity_Weights(t *testing.T) {
	all := conversations(20_000)
	for _, weights := range [][]int64{{1}, {1, 1}, {3, 1}, {5, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8}, {1000, 1}} {
		total := int64(0)
		var list []Candidate
		for i, w := range weights {
			total += w
			list = append(list, Candidate{Index: i, Seed: hashOf("up" + strconv.Itoa(i)), Weight: w})
		}
		got := make([]float64, len(weights))
		for _, of := range all {
			got[Home(list, of).Index]++
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
			running += c.Running
			weights += c.Weight
			idle[i].Running = 0
		}
		most := func(c Candidate) int64 {
			return int64(math.Ceil(1.25*float64(running)*float64(c.Weight)/float64(weights))) + 1
		}
		for _, of := range conversations(50) {
			c := Home(list, of)
			if c.Weight == 0 {
				t.Fatalf("conversation %x goes nowhere", of)
			}
			if c.Running+1 > most(c) {
				t.Fatalf("conversation %x goes to one of weight %d of %d with %d of %d calls", of, c.Weight, weights, c.Running, running)
			}
			if h := list[Home(idle, of).Index]; h.Running+1 <= most(h) && h.Index != c.Index {
				t.Fatalf("conversation %x goes to %d, although its home %d has room", of, c.Index, h.Index)
			}
		}
	})
}
