package storetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Harness is one store under test. It is empty.
type Harness struct {
	Store runner.Store
	// Fewer is by how much fewer beats a quick run sends, of a store that is slow; 0 for as many.
	Fewer int
	// Rules are those it was opened with.
	Rules federation.Rules
	// Format is that of the nodes' beats.
	Format int
	// SetClock sets the store's clock, which then stands still; nil if that cannot be
	// done.
	SetClock func(now int64)
	// Replace makes another server with the current data; nil if that cannot be done.
	Replace func(incarnation string)
	// Save returns a function that restores the current data, as if all later writes were
	// lost; nil if that cannot be done.
	Save func() (restore func())
	// Declare declares a pool new; nil if that cannot be done.
	Declare func(pool string) error
	// Damage replaces the data of the pool p; nil if that cannot be done. Delete applies the remedy in
	// the error, whose text it gets.
	Damage func(with string)
	Delete func(advice string)
}

// rounds is the number of rounds of a test that has so many in a full run.
func rounds(fewer, full int) int { return testkit.Rounds(full/max(fewer, 1), full) }

// Run runs the suite on stores that open makes.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("Same", func(t *testing.T) { same(t, open(t)) })
	t.Run("Life", func(t *testing.T) { life(t, open(t)) })
	t.Run("Loss", func(t *testing.T) { loss(t, open(t)) })
	t.Run("Expect", func(t *testing.T) { expect(t, open(t)) })
	t.Run("First", func(t *testing.T) { first(t, open(t)) })
	t.Run("Declared", func(t *testing.T) {
		if h := open(t); h.Declare != nil {
			declared(t, h)
		}
	})
	t.Run("Restore", func(t *testing.T) { restore(t, open(t)) })
	t.Run("Pools", func(t *testing.T) { pools(t, open(t)) })
	t.Run("Damage", func(t *testing.T) { damage(t, open(t)) })
	t.Run("Gone", func(t *testing.T) { gone(t, open(t)) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open(t)) })
}

// twin is a store, and the account that it is compared with.
type twin struct {
	t           *testing.T
	h           Harness
	now         int64
	incarnation string
	oracle      *federation.Account
	digests     Digests
	beats       int
}

const begin = int64(1_700_000_000_000)

func newTwin(t *testing.T, h Harness) *twin {
	t.Helper()
	if h.SetClock == nil || h.Replace == nil || h.Save == nil {
		t.Fatal("this part of the suite needs a store whose clock and memory can be set")
	}
	w := &twin{t: t, h: h, incarnation: "first", digests: Digests{}}
	w.at(begin)
	h.Replace(w.incarnation)
	return w
}

func (w *twin) at(now int64) {
	w.now = now
	w.h.SetClock(now)
}

// beat sends a beat, and compares the answer and the view; of a slow store once in a while in a quick run.
func (w *twin) beat(b *federation.Beat) federation.Reply {
	w.t.Helper()
	if w.oracle == nil {
		w.oracle = federation.NewAccount(w.h.Rules, w.now, federation.Options{Incarnation: w.incarnation})
	}
	want := w.oracle.Beat(w.now, w.incarnation, b.Expect, b)
	got, err := w.h.Store.Beat(context.Background(), "p", w.digests.Told(b))
	if err != nil {
		w.t.Fatalf("beat %s %d: %v", b.Node, b.Seq, err)
	}
	if diff := cmp.Diff(Text(want), Text(got)); diff != "" {
		w.t.Fatalf("beat %s %d at +%d ms (- want, + got):\n%s", b.Node, b.Seq, w.now-begin, diff)
	}
	if err := w.digests.Pair(want, got); err != nil {
		w.t.Fatalf("beat %s %d at +%d ms: %v", b.Node, b.Seq, w.now-begin, err)
	}
	w.beats++
	if w.beats%testkit.Rounds(max(w.h.Fewer, 1), 1) != 0 {
		return want
	}
	look, err := w.h.Store.Look(context.Background(), "p")
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(Text(w.oracle.View(w.now)), Text(look)); diff != "" {
		w.t.Fatalf("the view after beat %s %d (- want, + got):\n%s", b.Node, b.Seq, diff)
	}
	return want
}

func (w *twin) wants(r federation.Reply, s federation.Status) {
	w.t.Helper()
	if r.Status != s {
		w.t.Fatalf("got %s, want %s", r.Status, s)
	}
}
