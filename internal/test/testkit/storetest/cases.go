package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// same sends the beats of three nodes which restart, forget answers, repeat themselves
// and mix things up, to a store that is replaced and loses writes.
func same(t *testing.T, h Harness) {
	w := newTwin(t, h)
	rng := rand.New(rand.NewPCG(3, 4))
	nodes := []*node{newNode("a", h, 1), newNode("b", h, 2), newNode("c", h, 3)}
	var old []*federation.Beat
	seen := map[federation.Status]int{}
	answers := sha256.New()
	const full = 400
	rounds := rounds(h.Fewer, full)
	for range rounds {
		w.at(w.now + rng.Int64N(700))
		n := nodes[rng.IntN(len(nodes))]
		switch what := rng.IntN(100); {
		case what < 3:
			n.restart()
		case what < 6 && len(old) > 0: // a beat that comes late, or twice
			seen[w.beat(old[rng.IntN(len(old))]).Status]++
			continue
		case what < 8 && n.last != nil:
			w.beat(n.last)
			continue
		case what < 9:
			w.at(w.now - rng.Int64N(5000)) // the clock is put back
		case what == 9:
			w.incarnation = time.Duration(rng.Int64()).String()
			h.Replace(w.incarnation)
		case what == 10:
			w.at(w.now + 61_000)
		case what == 11:
			w.at(w.now - 70_000)
		}
		b := n.next()
		if b.Copy != nil {
			b.Copy.Former = rng.IntN(3) == 0
		}
		r := w.beat(b)
		seen[r.Status]++
		fmt.Fprintf(answers, "%+v %x", r.Grant, r.Digest)
		old = append(old, b)
		if rng.IntN(10) > 0 { // else the answer is lost
			n.took(r)
		}
	}
	for _, s := range []federation.Status{federation.Granted, federation.Learning, federation.Resend, federation.Stale, federation.Fenced} {
		if seen[s] == 0 && rounds == full {
			t.Errorf("no beat was answered with %q: %v", s, seen)
		}
	}
	if got := fmt.Sprintf("%x", answers.Sum(nil))[:16]; rounds == full && got != sameAnswers {
		t.Errorf("accounts answer otherwise than those of format %d, and gateways of both would disagree about an account: "+
			"raise federation.Format, and set sameAnswers to %q", federation.Format, got)
	}
}

// sameAnswers is a hash of what is granted in same by federation.Format.
const sameAnswers = "3ecaf6b371067edf"

// life is the life of two processes of one name, beside another: the first is fenced, and
// its grants still count.
func life(t *testing.T, h Harness) {
	w := newTwin(t, h)
	a := newNode("a", h, 1)
	b := newNode("b", h, 2)
	for range 35 {
		w.at(w.now + 2000)
		a.took(w.beat(a.next()))
		b.took(w.beat(b.next()))
	}
	r := w.beat(a.next())
	w.wants(r, federation.Granted)
	if r.Grant[0].Level == 0 && r.Grant[0].Rate == 0 {
		t.Fatalf("nothing was granted: %+v", r)
	}
	if again := w.beat(a.last); Text(again) != Text(r) {
		t.Errorf("the same beat had two answers:\n%s\n%s", Text(r), Text(again))
	}
	w.wants(w.beat(&federation.Beat{Node: "a", Instance: a.last.Instance, Seq: 3, Acked: 2}), federation.Stale)
	before := *a
	a.restart()
	w.wants(w.beat(a.next()), federation.Granted)
	w.wants(w.beat(before.next()), federation.Fenced)
	stranger := newNode("x", h, 5)
	stranger.full = false
	stranger.joined = true
	w.wants(w.beat(stranger.next()), federation.Resend)
}

// loss is the loss of a store's last writes: a node knows a later answer than the store, and
// nothing is granted for a Window, because no node has a digest.
func loss(t *testing.T, h Harness) {
	w := newTwin(t, h)
	a := newNode("a", h, 1)
	for range 35 {
		w.at(w.now + 2000)
		a.took(w.beat(a.next()))
	}
	restore := h.Save()
	oracle := clone(t, w.oracle)
	epoch := w.oracle.Epoch
	w.at(w.now + 1000)
	r := w.beat(a.next())
	w.wants(r, federation.Granted)
	a.took(r)
	restore()
	w.oracle = oracle
	a.digest = nil
	w.at(w.now + 1000)
	r = w.beat(a.next())
	w.wants(r, federation.Resend)
	a.took(r)
	if w.oracle.Epoch <= epoch {
		t.Fatalf("the epoch is %d after the loss of %d, want a later one", w.oracle.Epoch, epoch)
	}
	r = w.beat(a.next())
	w.wants(r, federation.Learning)
	a.took(r)
	w.at(r.Until - 1)
	r = w.beat(a.next())
	w.wants(r, federation.Learning)
	a.took(r)
	w.at(r.Until)
	w.wants(w.beat(a.next()), federation.Granted)
}

// expect is the number of long-running nodes that have to report to a new memory before grants
// begin early. A new node does not count, because it may have replaced one with usage.
func expect(t *testing.T, h Harness) {
	w := newTwin(t, h)
	a := newNode("a", h, 1)
	b := newNode("b", h, 2)
	c := newNode("c", h, 3)
	for _, n := range []*node{a, b, c} {
		n.expect = 2
	}
	for range 35 {
		w.at(w.now + 2000)
		a.took(w.beat(a.next()))
		b.took(w.beat(b.next()))
	}
	w.incarnation = "second"
	h.Replace(w.incarnation)
	tell := func(n *node, want federation.Status) {
		t.Helper()
		r := w.beat(n.next())
		w.wants(r, want)
		n.took(r)
	}
	tell(a, federation.Resend)
	tell(a, federation.Learning)
	tell(c, federation.Learning)
	tell(b, federation.Resend)
	tell(b, federation.Granted)
	tell(a, federation.Granted)
}

// restore is the help of one node that knows a memory for the next one: nothing is granted while earlier grants may be
// used, and then the rest. If all expected nodes report, there is no wait.
func restore(t *testing.T, h Harness) {
	var before *federation.Account // the store keeps it
	for _, expect := range []int{0, 2} {
		w := newTwin(t, h)
		w.oracle = before
		w.at(begin + int64(expect)*1_000_000)
		w.incarnation = time.Duration(expect).String()
		h.Replace(w.incarnation)
		a := newNode("a", h, 1)
		b := newNode("b", h, 2)
		for range 35 {
			w.at(w.now + 2000)
			a.took(w.beat(a.next()))
			b.took(w.beat(b.next()))
		}
		b.restart() // so it has not run for a Window
		for range 2 {
			w.at(w.now + 1000)
			b.took(w.beat(b.next()))
			a.took(w.beat(a.next()))
		}
		w.incarnation = time.Duration(expect + 1).String()
		h.Replace(w.incarnation)
		tell := func(n *node, want federation.Status) federation.Reply {
			t.Helper()
			n.expect = expect
			r := w.beat(n.next())
			w.wants(r, want)
			n.took(r)
			return r
		}
		tell(a, federation.Resend)
		tell(a, federation.Learning)
		tell(b, federation.Resend)
		if expect == 0 {
			tell(b, federation.Learning)
			w.at(w.now + h.Rules.TTL.Milliseconds())
		}
		r := tell(b, federation.Granted)
		tell(a, federation.Granted)
		if expect > 0 && r.Grant[0].Rate <= 0 { // else all possible grants to others since count
			t.Errorf("nothing was granted: %+v", r)
		}
		before = w.oracle
	}
}

// first is the first memory: it grants as soon as the expected number of nodes run side by side.
// Later ones do not.
func first(t *testing.T, h Harness) {
	w := newTwin(t, h)
	a := newNode("a", h, 1)
	b := newNode("b", h, 2)
	tell := func(n *node, want federation.Status) {
		t.Helper()
		n.expect = 2
		w.at(w.now + 100)
		r := w.beat(n.next())
		w.wants(r, want)
		n.took(r)
	}
	tell(a, federation.Learning)
	tell(b, federation.Learning)
	tell(a, federation.Learning)
	tell(b, federation.Learning) // a may have ended
	tell(a, federation.Granted)
	w.incarnation = "second"
	h.Replace(w.incarnation)
	a.restart()
	b.restart()
	for range 3 {
		tell(a, federation.Learning)
		tell(b, federation.Learning)
	}
}

// pools are independent of each other.
func pools(t *testing.T, h Harness) {
	ctx := context.Background()
	a := newNode("a", h, 1)
	if v, err := h.Store.Look(ctx, "one"); err != nil || Text(v) != Text(federation.View{}) {
		t.Fatalf("a pool that nobody told of is %+v, %v", v, err)
	}
	r, err := h.Store.Beat(ctx, "one", a.next())
	if err != nil || r.Status != federation.Learning {
		t.Fatalf("got %+v, %v", r, err)
	}
	if v, err := h.Store.Look(ctx, "two"); err != nil || len(v.Nodes) > 0 {
		t.Fatalf("the other pool has %+v, %v", v, err)
	}
	v, err := h.Store.Look(ctx, "one")
	if err != nil || len(v.Nodes) != 1 || v.Nodes[0].Name != "a" || v.Nodes[0].Region != "r-a" || v.Nodes[0].Address != "a:9090" || !v.Nodes[0].Live {
		t.Fatalf("the pool has %+v, %v", v, err)
	}
}

// damage is done to the memory: nothing is granted of it, the error names the remedy, and after that
// the usage is learnt anew.
func damage(t *testing.T, h Harness) {
	if h.Damage == nil {
		t.Skip("nobody else can write where this store keeps its accounts")
	}
	ctx := context.Background()
	for _, with := range []string{"garbage", "", "\x02garbage", "\x81\xa7version\x02", "\xff\xff\xff\xff", "[]", "\xc0"} {
		a := newNode("a", h, 1)
		if _, err := h.Store.Beat(ctx, "p", a.next()); err != nil {
			t.Fatal(err)
		}
		h.Damage(with)
		var said error
		for range 3 {
			r, err := h.Store.Beat(ctx, "p", a.next())
			if err == nil && r.Status == federation.Granted {
				t.Fatalf("%q: granted %+v", with, r)
			}
			said = err
		}
		if with == "" && said == nil {
			continue // as good as deleted
		}
		if !errors.Is(said, federation.ErrDamaged) && !errors.Is(said, federation.ErrEncoding) {
			t.Fatalf("%q: %v", with, said)
		}
		if _, err := h.Store.Look(ctx, "p"); err == nil {
			t.Errorf("%q can be looked at", with)
		}
		h.Delete(said.Error())
		b := newNode("b", h, 2)
		if r, err := h.Store.Beat(ctx, "p", b.next()); err != nil || r.Status != federation.Learning {
			t.Errorf("%q, deleted: %+v, %v", with, r, err)
		}
	}
}

// gone is a caller that has left: nothing is done for it.
func gone(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := newNode("a", h, 1)
	if _, err := h.Store.Beat(ctx, "p", a.next()); err == nil {
		t.Error("a beat whose context had ended was answered")
	}
	if v, err := h.Store.Look(context.Background(), "p"); err != nil || len(v.Nodes) > 0 {
		t.Errorf("it was booked: %+v, %v", v, err)
	}
}

func clone(t *testing.T, a *federation.Account) *federation.Account {
	b, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := federation.Decode(b, a.Rules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
