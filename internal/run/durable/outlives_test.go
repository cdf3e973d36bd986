package durable

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// longWindow is a tenant with a limit of 1,000 tokens in five hours.
func longWindow(kind shape.Kind) governor.Config {
	cfg := config()
	cfg.Tenants = cfg.Tenants[:1]
	cfg.Tenants[0].MaxWait = 0
	cfg.Tenants[0].Budgets = nil
	cfg.Tenants[0].Windows = []limits.Window{{Of: limits.Tokens, Rule: shape.Rule{Kind: kind, Amount: 1000, Per: 5 * time.Hour, Burst: burstOf[kind]}}}
	return cfg
}

var burstOf = map[shape.Kind]int64{shape.GCRA: 1000}

// takes takes one call of so many tokens, and reports whether it was let in.
func takes(t *testing.T, g *life, tokens int64) bool {
	t.Helper()
	l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Input: tokens})
	if rej == nil {
		l.Settle(governor.Usage{Input: tokens})
	}
	return rej == nil
}

// TestLongWindowsOutliveAKill: what was used of a limit over hours counts after a restart, and once: whether the process was killed or stopped,
// gone for a short time or for longer than a journal keeps records, and again before anything new was saved.
func TestLongWindowsOutliveAKill(t *testing.T) {
	ends := map[string]func(l *life, t *testing.T){"killed": func(l *life, _ *testing.T) { l.kill() }, "stopped": (*life).stop}
	for _, kind := range []shape.Kind{shape.Rolling, shape.Fixed, shape.TokenBucket, shape.GCRA} {
		for what, end := range ends {
			for _, gone := range []time.Duration{20 * time.Second, 3 * time.Minute} {
				testkit.Virtual(t, fmt.Sprint(kind, " ", what, " for ", gone), func(t *testing.T) { outlives(t, longWindow(kind), end, gone) })
			}
		}
	}
}

func outlives(t *testing.T, cfg governor.Config, end func(*life, *testing.T), gone time.Duration) {
	opt := options(t.TempDir())
	g := begin(t, opt, cfg)
	for range 4 { // over segments, of which the first are removed
		time.Sleep(77 * time.Second)
		if !takes(t, g, 200) {
			t.Error("a call within the limit is refused")
		}
	}
	for range 2 {
		time.Sleep(time.Second)
		end(g, t)
		time.Sleep(gone)
		g = begin(t, opt, cfg)
		if takes(t, g, 300) {
			t.Error("after a restart, 800 of 1,000 tokens are forgotten")
		}
	}
	if !takes(t, g, 150) {
		t.Error("after restarts, 800 of 1,000 tokens count more than once")
	}
	g.stop(t)
}

// Debt from a call of five minutes' tokens counts after a restart until it has been paid off, and no longer.
//
// Seen to fail with: debt left out of what is saved.
func TestDebtOutlivesAKill(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		cfg := longWindow(shape.Rolling)
		cfg.Tenants[0].Windows = nil
		cfg.Tenants[0].TPM = 1000
		opt := options(t.TempDir())
		g := begin(t, opt, cfg)
		began := time.Now()
		l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Input: 10}))
		if rej != nil {
			t.Fatal(rej)
		}
		l.Settle(governor.Usage{Input: 5000})
		for range 3 {
			time.Sleep(75 * time.Second)
			g.kill()
			g = begin(t, opt, cfg)
			if takes(t, g, 900) {
				t.Errorf("%v after a call of five minutes' tokens another one is let in", time.Since(began))
			}
		}
		time.Sleep(3 * time.Minute)
		if !takes(t, g, 900) {
			t.Errorf("%v after a call of five minutes' tokens no other is let in", time.Since(began))
		}
		g.stop(t)
	})
}

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
	for what, pools := range map[string]record.Saved{
		"no JSON":   {Estimates: []byte("{")},
		"neither":   {Upstreams: []byte("}")},
		"no number": {Lengths: map[string]record.Lengths{"p": {Outputs: []lengths.Lesson{{Bins: [][3]float64{{math.NaN()}}}}}}},
	} {
		dir := t.TempDir()
		var said strings.Builder
		s := testkit.Must(openSaved(dir, filepath.Join(dir, "books.db"), slog.New(slog.NewTextHandler(&said, nil))))(t)
		taught := record.Saved{Lengths: map[string]record.Lengths{"p": {Speed: 7}}, Upstreams: []byte(`{"p":{}}`)}
		testkit.OK(t, s.save(1, nil, spendChange{}, taught))
		who := record.Owner{Tenant: "a"}
		var use record.Use
		use.Used[0][0] = 5
		if err := s.save(2, map[record.Owner]record.Use{who: use}, spendChange{}, pools); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		past := record.NewPast(time.Now(), time.UTC)
		since := testkit.Must(s.load(past, spend.NewBook(time.UTC)))(t)
		if since != 2 || past.Lengths["p"].Speed != 7 || string(past.Upstreams) != `{"p":{}}` {
			t.Errorf("%s: saved as of segment %d, with %v and %s", what, since, past.Lengths, past.Upstreams)
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

// TestNotes: what was set a second ago is there for the next process, however this one ends.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		log := slog.New(slog.DiscardHandler)
		n := OpenNotes(dir, log)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }()
		n.Set("a", []byte("1"))
		n.Set("b", []byte{0, 255})
		n.Set("a", []byte("2"))
		time.Sleep(1100 * time.Millisecond)
		next := OpenNotes(dir, log)
		if string(next.Get("a")) != "2" || !bytes.Equal(next.Get("b"), []byte{0, 255}) || next.Get("c") != nil {
			t.Errorf("a is %q, b %q and c %q", next.Get("a"), next.Get("b"), next.Get("c"))
		}
		n.Set("a", []byte("3"))
		cancel()
		synctest.Wait()
		if got := OpenNotes(dir, log).Get("a"); string(got) != "3" {
			t.Errorf("after an end in order a is %q", got)
		}
	})
}

// TestNotes_Unreadable: a file that cannot be read is logged, and begun anew.
func TestNotes_Unreadable(t *testing.T) {
	for _, text := range []string{"", "{", `{"format": 2, "values": {"a": "MQ=="}}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, notesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		n := OpenNotes(dir, slog.New(slog.NewTextHandler(&said, nil)))
		if n.Get("a") != nil || !strings.Contains(said.String(), "begun anew") {
			t.Errorf("%q: a is %q, and the log says %q", text, n.Get("a"), said.String())
		}
		n.Set("a", []byte("1"))
		if err := n.write(); err != nil {
			t.Error(err)
		}
		if got := OpenNotes(dir, slog.New(slog.DiscardHandler)).Get("a"); string(got) != "1" {
			t.Errorf("then a is %q", got)
		}
	}
}
