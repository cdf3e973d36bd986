package durable

import (
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestLengthsOutliveAKill: calls that may take far more than they do are let in after a restart as before it, in a pool that counts what is
// produced. What was learned and cannot be read is logged, and the pool begins as a new one.
func TestLengthsOutliveAKill(t *testing.T) {
	for learned, want := range map[string]int{"as it was written": 12, "{": 3, `{"format": 2, "lengths": {}}`: 3} {
		testkit.Virtual(t, learned, func(t *testing.T) { lengthsOutlive(t, learned, want) })
	}
}

func lengthsOutlive(t *testing.T, learned string, want int) {
	opt := options(t.TempDir())
	var said strings.Builder
	opt.Log = slog.New(slog.NewTextHandler(&said, nil))
	cfg := governor.Config{
		Pools:   []governor.Pool{{Name: "p", TPM: 200_000, Accounting: escrow.Production, Burst: time.Minute, MaxQueue: 100}},
		Tenants: []governor.Tenant{{Name: "a", Weight: 1}},
	}
	admit := func(g *life) (leases []governor.Lease) {
		for range 12 {
			l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Input: 100, Output: 64_000})
			if rej == nil {
				leases = append(leases, l)
			}
		}
		return leases
	}
	g := begin(t, opt, cfg)
	for n := 0; n < 40; time.Sleep(5 * time.Second) {
		list := admit(g)
		n += len(list)
		for i := range list {
			list[i].Settle(governor.Usage{Input: 100, Output: 200})
		}
	}
	time.Sleep(61 * time.Second) // until it is saved
	g.kill()
	if strings.HasPrefix(learned, "{") {
		db := testkit.Must(bolt.Open(filepath.Join(opt.Dir, "books.db"), 0o600, nil))(t)
		err := db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyLearned, []byte(learned)) })
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Minute)
	g = begin(t, opt, cfg)
	time.Sleep(time.Minute) // a pool starts at its pace
	list := admit(g)
	if len(list) != want {
		t.Errorf("of 12 calls %d are let in after a restart, want %d", len(list), want)
	}
	if told := strings.Contains(said.String(), "learned anew"); told != (want < 12) {
		t.Errorf("the log says %q", said.String())
	}
	for i := range list {
		list[i].Release()
	}
	g.stop(t)
}

// What was learned and cannot be written is logged, and keeps nothing from being saved that is promised.
func TestSave_WithoutWhatWasLearned(t *testing.T) {
	for what, pools := range map[string]governor.Saved{
		"no JSON":   {Estimates: []byte("{")},
		"no number": {Lengths: map[string]governor.Lengths{"p": {Outputs: []lengths.Lesson{{Bins: [][3]float64{{math.NaN()}}}}}}},
	} {
		dir := t.TempDir()
		var said strings.Builder
		s := testkit.Must(openSaved(dir, filepath.Join(dir, "books.db"), slog.New(slog.NewTextHandler(&said, nil))))(t)
		taught := governor.Saved{Lengths: map[string]governor.Lengths{"p": {Speed: 7}}}
		testkit.OK(t, s.save(1, nil, taught))
		who := governor.Owner{Tenant: "a"}
		var use governor.Use
		use.Used[0][0] = 5
		if err := s.save(2, map[governor.Owner]governor.Use{who: use}, pools); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		past := governor.NewPast(time.Now(), time.UTC)
		since := testkit.Must(s.load(past))(t)
		if since != 2 || past.Lengths["p"].Speed != 7 {
			t.Errorf("%s: saved as of segment %d, with %v", what, since, past.Lengths)
		}
		uses := past.State().Uses
		if len(uses) != 1 || uses[0].Owner != who {
			t.Errorf("%s: the usage is %v", what, uses)
		}
		if !strings.Contains(said.String(), "cannot be written") {
			t.Errorf("%s: the log says %q", what, said.String())
		}
		testkit.OK(t, s.db.Close())
	}
}
