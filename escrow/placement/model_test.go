package placement

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
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
