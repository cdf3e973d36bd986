package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
)

// Sharer is a store of parts of owners' limits.
type Sharer interface {
	Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error)
	Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error)
}

// PartsHarness is a Sharer under test. It is empty.
type PartsHarness struct {
	Store Sharer
	// Fewer is by how much fewer beats a quick run sends, of a store that is slow; 0 for as many.
	Fewer int
	// SetClock sets the store's clock, which stands still.
	SetClock func(now int64)
	// Replace lets another server of this name take over all data, and DeclareOwner declares an owner's account new; nil if that cannot be done.
	Replace      func(incarnation string)
	DeclareOwner func(owner string) (bool, error)
	// Damage replaces the account of an owner, and Delete drops it; nil if that cannot be done.
	Damage func(owner, with string)
	Delete func(owner string)
}

// RunParts runs the suite on stores that open makes.
func RunParts(t *testing.T, open func(t *testing.T) PartsHarness) {
	t.Run("Same", func(t *testing.T) { sameParts(t, open(t)) })
	t.Run("Order", func(t *testing.T) { order(t, open(t)) })
	t.Run("Gone", func(t *testing.T) { goneParts(t, open(t)) })
	t.Run("Together", func(t *testing.T) { together(t, open(t)) })
	t.Run("Asks", func(t *testing.T) { sameAsks(t, open(t)) })
	t.Run("Replayed", func(t *testing.T) { replayed(t, open(t)) })
	t.Run("Declared", func(t *testing.T) {
		if h := open(t); h.DeclareOwner != nil {
			declaredParts(t, h)
		}
	})
	t.Run("Lost", func(t *testing.T) { lostParts(t, open(t)) })
	t.Run("Damaged", func(t *testing.T) { damagedParts(t, open(t)) })
	t.Run("Rush", func(t *testing.T) { rush(t, open(t)) })
}

// sameParts sends batches of beats of some processes, which come late, twice, or not at all for
// a while, and whose limits come, go and change; the store has to answer as accounts do.
func sameParts(t *testing.T, h PartsHarness) {
	rng := rand.New(rand.NewPCG(5, 6))
	w := newCrowd(rng, "a", "b/{c}", "ü x")
	now := begin
	seen := map[bool]int{}
	var old []*parts.Beat
	answers := sha256.New()
	const full = 600
	rounds := rounds(h.Fewer, full)
	for range rounds {
		now = drift(rng, now+rng.Int64N(400), 40)
		h.SetClock(now)
		var batch []*parts.Beat
		for range 1 + rng.IntN(5) {
			if len(old) > 0 && rng.IntN(12) == 0 {
				batch = append(batch, old[rng.IntN(len(old))])
				continue
			}
			b := w.next(now)
			batch = append(batch, b)
			old = append(old, b)
		}
		for _, r := range w.share(t, h, now, batch) {
			seen[r.Seq > 0]++
			fmt.Fprintf(answers, "%+v", r)
		}
	}
	if seen[false] < 20*rounds/full || seen[true] < 1000*rounds/full {
		t.Errorf("so many were answered: %v", seen)
	}
	if got := fmt.Sprintf("%x", answers.Sum(nil))[:16]; rounds == full && got != samePartsAnswers {
		t.Errorf("accounts answer otherwise than those of format %d, and gateways of both would disagree about an account: "+
			"raise federation.Format, and set samePartsAnswers to %q", federation.Format, got)
	}
}

// samePartsAnswers is a hash of what is answered in sameParts by federation.Format.
const samePartsAnswers = "86473e89d1244af7"

// drift lets a clock jump now and then, once in so many times each: over a TTL, over a Window, and
// back.
func drift(rng *rand.Rand, now int64, once int) int64 {
	switch rng.IntN(once) {
	case 0:
		return now + 3000
	case 1:
		return now + 62_000
	case 2:
		return now - 2000
	}
	return now
}

// crowd are some processes, and the accounts that a store is compared with.
type crowd struct {
	rng         *rand.Rand
	owners      []string
	oracles     map[string]*parts.Account
	members     map[string]*told
	incarnation string // of the store's server
}

func newCrowd(rng *rand.Rand, owners ...string) *crowd {
	return &crowd{rng: rng, owners: owners, oracles: map[string]*parts.Account{}, members: map[string]*told{}}
}

// oracle is the account of an owner that the store is compared with.
func (w *crowd) oracle(owner string) *parts.Account {
	a := w.oracles[owner]
	if a == nil {
		a = &parts.Account{}
		w.oracles[owner] = a
	}
	return a
}

// heard records an answer to a beat.
func (w *crowd) heard(b *parts.Beat, r parts.Reply) {
	for i, p := range r.Parts {
		w.members[b.Owner+b.Instance].parts[b.Claims[i].Name] = p.Part
	}
}

// told are the last beat and answer of a process.
type told struct {
	seq   int64
	epoch int64 // of the last answer
	parts map[string]int64
}

// share sends beats to a store, which has to answer them as accounts do.
func (w *crowd) share(t *testing.T, h PartsHarness, now int64, batch []*parts.Beat) []parts.Reply {
	t.Helper()
	got, err := h.Store.Share(context.Background(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.answers(now, batch), got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("at +%d ms %s (- want, + got):\n%s", now-begin, Text(batch), diff)
	}
	return got
}

func (w *crowd) answers(now int64, batch []*parts.Beat) []parts.Reply {
	var out []parts.Reply
	for _, b := range batch {
		w.oracle(b.Owner).On(w.incarnation)
		r := w.oracle(b.Owner).Beat(now, b)
		w.heard(b, r)
		out = append(out, r)
	}
	return out
}

// next is a process' next beat.
func (w *crowd) next(now int64) *parts.Beat {
	b := w.beat(w.owners[w.rng.IntN(len(w.owners))], []string{"i", "j", "k", "B"}[w.rng.IntN(4)], now)
	if w.rng.IntN(4) == 0 {
		for i := range b.Claims {
			b.Claims[i].Lasts, b.Claims[i].Lasted = w.rng.Int64N(80_000), w.rng.Int64N(80_000)
		}
	}
	return b
}

// beat is the next one of a process of an owner.
func (w *crowd) beat(owner, instance string, now int64) *parts.Beat {
	b := &parts.Beat{Owner: owner, Instance: instance, Timed: w.rng.IntN(8) > 0}
	m := w.members[b.Owner+b.Instance]
	if m == nil {
		m = &told{parts: map[string]int64{}}
		w.members[b.Owner+b.Instance] = m
	}
	m.seq += 1 + w.rng.Int64N(2)
	b.Seq = m.seq
	wide := []int64{10, 60_000, parts.MaxAmount, 2 * parts.MaxAmount}
	for i, kind := range []parts.Kind{parts.Rolling, parts.Slots, parts.Period, parts.Rolling} {
		if w.rng.IntN(6) == 0 {
			continue // because it knows no beat yet
		}
		limit := wide[(i+len(b.Owner))%len(wide)]
		c := parts.Claim{Name: fmt.Sprint(kind, i), Kind: kind, Limit: limit, Ends: now/100_000*100_000 + 100_000}
		if w.rng.IntN(20) == 0 {
			c.Limit /= 2
		}
		if w.rng.IntN(20) == 0 {
			c.Ends -= 170_000
		}
		c.Part = m.parts[c.Name]
		if w.rng.IntN(15) == 0 {
			c.Part = 0
		}
		c.Used = w.rng.Int64N(c.Part + 2)
		c.Held = w.rng.Int64N(c.Used + 1)
		if w.rng.IntN(4) > 0 {
			c.Want = c.Used + w.rng.Int64N(limit)
		}
		if w.rng.IntN(3) > 0 {
			c.Need = c.Used + w.rng.Int64N(limit)
		}
		if i == 3 { // over a window of its own
			c.Tail = []int64{0, 1000, 30_000, 18_000_000}[len(b.Owner)%4]
			c.Spare = w.rng.Int64N(limit)
		}
		if kind == parts.Slots && w.rng.IntN(5) > 0 {
			c.Spare = w.rng.Int64N(limit)
			c.Weight = w.rng.Int64N(1e6)
			c.Calm = w.rng.Int64N(1e6)
			c.CalmUse = w.rng.Int64N(limit)
			c.Tail = w.rng.Int64N(5000)
			c.Expect = int64(len(b.Owner))
			c.Note = []string{"", "{\"of\": \"a\"}", "\x00\xff and\nso on"}[w.rng.IntN(3)]
		}
		b.Claims = append(b.Claims, c)
	}
	b.Left = w.rng.IntN(30) == 0 // and comes back nevertheless
	return b
}

// hungry is a beat of a process that wants the whole limit.
func hungry(owner, instance string, seq, part int64) *parts.Beat {
	return &parts.Beat{Owner: owner, Instance: instance, Seq: seq, Claims: []parts.Claim{
		{Name: "x", Kind: parts.Rolling, Limit: 10, Part: part, Want: 100, Need: 1},
	}}
}

// order: answers come in the order of the beats, also if several are of one owner; and owners
// are independent of each other.
func order(t *testing.T, h PartsHarness) {
	h.SetClock(begin)
	got, err := h.Store.Share(context.Background(), []*parts.Beat{
		hungry("z", "i", 1, 0), hungry("a", "i", 7, 0), hungry("z", "j", 2, 0), hungry("z", "i", 2, 10), hungry("z", "i", 2, 10), {Owner: "m", Instance: "i", Seq: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []parts.Reply{
		{Seq: 1, Parts: []parts.Part{{Part: 10}}},
		{Seq: 7, Parts: []parts.Part{{Part: 10}}},
		{Seq: 2, Parts: []parts.Part{{}}},
		{Seq: 2, Parts: []parts.Part{{Part: 5}}},
		{},
		{Seq: 3},
	}
	restoring := cmp.Options{cmpopts.IgnoreFields(parts.Reply{}, "Epoch", "Now"), cmpopts.IgnoreFields(parts.Part{}, "Sum", "Most", "Peers")}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), restoring); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
	if got, err := h.Store.Share(context.Background(), nil); err != nil || len(got) > 0 {
		t.Errorf("to nothing there is %v, %v", got, err)
	}
}

// goneParts: nothing is done for a caller that has left.
func goneParts(t *testing.T, h PartsHarness) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Store.Share(ctx, []*parts.Beat{hungry("a", "i", 1, 0)}); err == nil {
		t.Error("a beat whose context had ended was answered")
	}
	got, err := h.Store.Share(context.Background(), []*parts.Beat{hungry("a", "j", 1, 0)})
	if err != nil || got[0].Parts[0].Part != 10 {
		t.Errorf("it was booked: %v, %v", got, err)
	}
}

// together: processes send many beats concurrently, in any order of owners. None waits for
// another in a circle, and the sum of all parts never exceeds the limit.
func together(t *testing.T, h PartsHarness) {
	var group sync.WaitGroup
	const processes, rounds = 4, 12
	held := make([][]int64, processes)
	for i := range processes {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			held[i] = make([]int64, 20)
			for round := range int64(rounds) {
				names := rng.Perm(len(held[i]))
				var batch []*parts.Beat
				for _, n := range names {
					batch = append(batch, hungry(fmt.Sprint("o", n), fmt.Sprint("i", i), round+1, held[i][n]))
				}
				got, err := h.Store.Share(context.Background(), batch)
				if err != nil {
					t.Error(err)
					return
				}
				for at, n := range names {
					held[i][n] = got[at].Parts[0].Part
				}
			}
		})
	}
	group.Wait()
	for n := range held[0] {
		sum := int64(0)
		for i := range processes {
			sum += held[i][n]
		}
		if sum < 1 || sum > 10 { // the process that ends first cannot give up parts for later wishes
			t.Errorf("owner %d: %d of 10 are held", n, sum)
		}
	}
}

// damagedParts: the account of an owner that cannot be read fails alone, and is left as it is until somebody deletes it. All others are
// answered, alone and beside it, in beats and in asks.
func damagedParts(t *testing.T, h PartsHarness) {
	if h.Damage == nil {
		t.Skip("nobody else can write where this store keeps its accounts")
	}
	h.SetClock(begin)
	ctx := context.Background()
	owners := []string{"a", "b in p", "b", "pool p"}
	seq := int64(0)
	beats := func(owners ...string) (list []*parts.Beat) {
		seq++
		for _, owner := range owners {
			list = append(list, hungry(owner, "i", seq, 10))
		}
		return list
	}
	if _, err := h.Store.Share(ctx, beats(owners...)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"b", "pool p"} {
		for _, with := range []string{"garbage", "\x02garbage", "\x94\x02\x01\x01\xa1x", "\xff\xff\xff\xff", "\xffllmgov log", "[]", "\xc0"} {
			h.Damage(bad, with)
			for range 2 { // also once it is known
				got, err := h.Store.Share(ctx, beats(owners...))
				wantFailed(t, bad, owners, got, err)
			}
			q := &parts.Ask{Beats: beats("b in p", "b"), Calls: []parts.Call{{{Beat: 1, Amount: 1}}}}
			if bad == "b" {
				got, err := h.Store.Ask(ctx, q)
				wantFailed(t, bad, []string{"b in p", "b"}, got.Replies, err)
				if len(got.Verdicts) > 0 {
					t.Errorf("%q: there are verdicts: %+v", with, got.Verdicts)
				}
			} else if got, err := h.Store.Ask(ctx, q); err != nil || len(got.Verdicts) != 1 {
				t.Errorf("%q: a call of others is answered %+v, %v", with, got, err)
			}
			h.Delete(bad)
			if got, err := h.Store.Share(ctx, beats(owners...)); err != nil || slices.ContainsFunc(got, func(r parts.Reply) bool { return r.Seq == 0 }) {
				t.Errorf("%q, deleted: %+v, %v", with, got, err)
			}
		}
	}
}

// wantFailed checks that beats of all owners but one were answered.
func wantFailed(t *testing.T, bad string, owners []string, got []parts.Reply, err error) {
	t.Helper()
	failed, some := errors.AsType[parts.Failures](err)
	if !some || len(failed) != 1 || len(got) != len(owners) {
		t.Fatalf("%s is damaged: %+v, %v", bad, got, err)
	}
	for i, owner := range owners {
		switch err := failed[i]; {
		case owner != bad && (err != nil || got[i].Seq == 0):
			t.Errorf("%s is damaged, and %s is answered %+v, %v", bad, owner, got[i], err)
		case owner == bad && !errors.Is(err, parts.ErrDamaged) && !errors.Is(err, parts.ErrEncoding):
			t.Errorf("of %s: %v", bad, err)
		}
	}
}
