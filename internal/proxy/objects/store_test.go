package objects

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"pgregory.net/rapid"
)

var ctx = context.Background()

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s := testkit.Must(Open(dir, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestVisible(t *testing.T) {
	for _, tt := range []struct {
		owner, to string
		want      bool
	}{
		{"acme", "acme", true},
		{"acme/search", "acme/search", true},
		{"acme/search", "acme", true},
		{"acme/search/eu", "acme", true},
		{"acme", "acme/search", false},
		{"acme/search", "acme/batch", false},
		{"acme/search", "acme/sea", false},
		{"acmes", "acme", false},
		{"acme", "", false},
	} {
		if got := Visible(tt.owner, tt.to); got != tt.want {
			t.Errorf("what %q made is visible to %q: %t, want %t", tt.owner, tt.to, got, tt.want)
		}
	}
}

// What is owned for good is on disk when Own returns: another reader of the file, as of
// a process that was killed then, has it.
func TestOwnIsOnDiskWhenItReturns(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	testkit.OK(t, s.Own(ctx, Key{"up", "file-1"}, Entry{Kind: File, Owner: "acme"}))
	text := testkit.Must(os.ReadFile(filepath.Join(dir, "objects.db")))(t)
	copied := t.TempDir()
	testkit.OK(t, os.WriteFile(filepath.Join(copied, "objects.db"), text, 0o600))
	if e, ok := open(t, copied).Owner(Key{"up", "file-1"}); !ok || e.Owner != "acme" {
		t.Errorf("after a kill the file belongs to %q, want acme", e.Owner)
	}
}

func TestSoonIsWrittenSoon(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.OwnSoon(Key{"up", "resp_1"}, Entry{Kind: Response, Owner: "acme"})
	for range 100 { // it has its own goroutine, and a disk below it
		if _, ok := s.disk.get(Key{"up", "resp_1"}); ok {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("an entry was not written in two seconds")
}

func TestResponsesFadeAndFilesDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "")
		s.OwnSoon(Key{"up", "resp_1"}, Entry{Kind: Response, Owner: "acme"})
		testkit.OK(t, s.Own(ctx, Key{"up", "file_1"}, Entry{Kind: File, Owner: "acme"}))
		time.Sleep(fadesAfter)
		if _, ok := s.Owner(Key{"up", "resp_1"}); !ok {
			t.Error("a response faded too early")
		}
		time.Sleep(time.Second)
		if _, ok := s.Owner(Key{"up", "resp_1"}); ok {
			t.Error("a response is known for ever")
		}
		s.OwnSoon(Key{"up", "resp_2"}, Entry{Kind: Response, Owner: "acme"})
		if len(s.fading) != 1 || len(s.order) != 1 {
			t.Errorf("%d entries are held, want the newest alone", len(s.fading))
		}
		if _, ok := s.Owner(Key{"up", "file_1"}); !ok {
			t.Error("a file faded")
		}
	})
}

func TestOldResponsesLeaveTheDisk(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	old := Entry{Kind: Response, Owner: "acme", Made: now.Add(-fadesAfter - time.Hour)}
	testkit.OK(t, s.disk.putAll(map[Key]Entry{{"up", "old"}: {Kind: Response, Owner: "acme", Made: now}}))
	testkit.OK(t, s.disk.put(Key{"up", "older"}, old))
	// Made again since: only the age goes.
	testkit.OK(t, s.disk.put(Key{"up", "again"}, old))
	testkit.OK(t, s.disk.putAll(map[Key]Entry{{"up", "again"}: {Kind: Response, Owner: "acme", Made: now}}))
	for id, want := range map[string]bool{"old": true, "older": false, "again": true} {
		if _, ok := s.disk.get(Key{"up", id}); ok != want {
			t.Errorf("%s is on disk: %t, want %t", id, ok, want)
		}
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := open(t, t.TempDir())
	testkit.OK(t, s.Close())
	if err := s.Own(ctx, Key{"up", "a"}, Entry{Kind: File, Owner: "acme"}); err == nil {
		t.Error("a closed store says that it keeps an owner")
	}
	s.OwnSoon(Key{"up", "b"}, Entry{Kind: Response, Owner: "acme"})
	if _, ok := s.Owner(Key{"up", "b"}); ok {
		t.Error("a closed store took an entry")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		open(t, dir)
		if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a folder in use: %v", err)
		}
		bad := t.TempDir()
		testkit.OK(t, os.WriteFile(filepath.Join(bad, "objects.db"), []byte(strings.Repeat("no database ", 10_000)), 0o600))
		if _, err := Open(bad, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "objects.db") {
			t.Errorf("a file that is no database: %v", err)
		}
	})
}

// The store agrees with a map, with restarts in between.
func TestStoreAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := testkit.Must(os.MkdirTemp(t.TempDir(), ""))(rt)
		reopen := func() *Store {
			s := open(t, dir)
			s.disk.db.NoSync = true // thousands of writes, and no loss of power
			return s
		}
		s := reopen()
		defer func() { _ = s.Close() }()
		want := map[Key]string{}
		key := rapid.Custom(func(rt *rapid.T) Key {
			return Key{rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "upstream"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")}
		})
		owner := rapid.SampledFrom([]string{"x", "x/t", "y"})
		kind := map[string]Kind{"a": File, "b": Response, "c": Batch} // an id has one kind for ever
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			k := key.Draw(rt, "key")
			switch rapid.IntRange(0, 5).Draw(rt, "do") {
			case 0, 1:
				want[k] = owner.Draw(rt, "owner")
				testkit.OK(rt, s.Own(ctx, k, Entry{Kind: kind[k.ID], Owner: want[k]}))
			case 2:
				if kind[k.ID] == Response {
					want[k] = owner.Draw(rt, "owner")
					s.OwnSoon(k, Entry{Kind: Response, Owner: want[k]})
				}
			case 3:
				delete(want, k)
				testkit.OK(rt, s.Forget(k))
			case 4:
				testkit.OK(rt, s.Close())
				s = reopen()
			}
			for _, up := range []string{"u", "v"} {
				for id := range kind {
					k := Key{up, id}
					if e, _ := s.Owner(k); e.Owner != want[k] {
						rt.Fatalf("%v belongs to %q, want %q", k, e.Owner, want[k])
					}
					if kind[id].fades() {
						continue
					}
					for _, to := range []string{"x", "x/t", "y"} {
						if got := s.Any(up, kind[id], to); got != (want[k] != "" && Visible(want[k], to)) {
							rt.Fatalf("Any(%s, %s, %s) is %t, and %q has it", up, id, to, got, want[k])
						}
					}
				}
			}
		}
	})
}

// The dearest model of a file of calls is known after a restart.
func TestOwnCalls(t *testing.T) {
	dir := t.TempDir()
	key := Key{"up", "file-calls"}
	for range 2 {
		s := testkit.Must(Open(dir, slog.New(slog.DiscardHandler)))(t)
		if _, known := s.Owner(key); !known {
			testkit.OK(t, s.Own(t.Context(), key, Entry{Kind: BatchFile, Owner: "acme/search", Model: "gpt-4o"}))
		}
		if e, _ := s.Owner(key); e.Kind != BatchFile || e.Owner != "acme/search" || e.Model != "gpt-4o" {
			t.Errorf("it is %+v", e)
		}
		testkit.OK(t, s.Close())
	}
}

// The size of an object is kept with it, also over a restart, and what is not there does not come
// to be by it.
func TestResize(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := open(t, dir)
		key := Key{"up", "resp_1"}
		file := Key{"up", "file-1"}
		gone := Key{"up", "resp_2"}
		s.OwnSoon(key, Entry{Kind: Response, Owner: "acme", Size: 7})
		testkit.OK(t, s.Own(ctx, file, Entry{Kind: File, Owner: "acme", Size: 9}))
		s.OwnSoon(gone, Entry{Kind: Response, Owner: "acme"})
		testkit.OK(t, s.Forget(gone))
		s.Resize(key, 100_000)
		s.Resize(gone, 100_000)
		if dir != "" {
			testkit.OK(t, s.Close())
			s = open(t, dir)
		}
		if e, _ := s.Owner(key); e.Size != 100_000 || e.Owner != "acme" || e.Model != "" {
			t.Errorf("folder %q: the response is %+v", dir, e)
		}
		if e, _ := s.Owner(file); e.Size != 9 {
			t.Errorf("folder %q: the file is %+v", dir, e)
		}
		if e, known := s.Owner(gone); known {
			t.Errorf("folder %q: what is gone is %+v", dir, e)
		}
	}
}

// A debt is collected once, however many ask at once, also after a restart; who could not
// charge it leaves it to the next.
func TestDebtsAreCollectedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	key := Key{"up", "resp_1"}
	other := Key{"other", "resp_1"}
	s := open(t, dir)
	testkit.OK(t, s.Owe(ctx, key, Debt{Kind: Response, Owner: "acme", Pool: "p", Model: "m", Input: 7}))
	testkit.OK(t, s.Close())
	s = open(t, dir)
	collect := func(s *Store, key Key, charged bool) (n int64) {
		var calls atomic.Int64
		testkit.AtOnce(8, func(_ int) {
			if err := s.Collect(key, func(d *Debt) bool {
				calls.Add(1)
				if d.Owner != "acme" || d.Pool != "p" || d.Model != "m" || d.Input != 7 || d.Kind != Response {
					t.Errorf("after a restart the debt is %+v", d)
				}
				return charged
			}); err != nil {
				t.Error(err)
			}
		})
		return calls.Load()
	}
	if n := collect(s, other, true); n != 0 {
		t.Errorf("what is owed elsewhere was charged %d times", n)
	}
	if n := collect(s, key, false); n == 0 {
		t.Error("a debt that could not be charged was not left to the next")
	}
	if n := collect(s, key, true); n != 1 {
		t.Errorf("a debt was charged %d times", n)
	}
	testkit.OK(t, s.Close())
	if n := collect(open(t, dir), key, true); n != 0 {
		t.Errorf("after a restart a debt that was collected was charged %d times", n)
	}
}

func TestAnyDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "")
		for _, id := range []string{"a", "b", "c"} {
			_ = s.Owe(ctx, Key{"up", id}, Debt{Kind: Response, Owner: "acme"})
		}
		_ = s.Owe(ctx, Key{"up", "d"}, Debt{Kind: Batch, Owner: "acme"})
		_ = s.Owe(ctx, Key{"up", "e"}, Debt{Kind: Response, Owner: "acme/search"})
		if _, ok := s.AnyDebt("up", Response, "acme", 3); ok {
			t.Error("three are more than three")
		}
		seen := map[string]bool{}
		for range 200 {
			if key, ok := s.AnyDebt("up", Response, "acme", 2); ok {
				seen[key.ID] = true
			}
		}
		if len(seen) != 3 || !seen["a"] || !seen["b"] || !seen["c"] {
			t.Errorf("found %v, want a, b and c", seen)
		}
		time.Sleep(fadesAfter + time.Second)
		if _, ok := s.AnyDebt("up", Response, "acme", 0); ok {
			t.Error("what the provider has forgotten is owed still")
		}
	})
}

// Who could not charge a debt may change it: what was streamed outlives a restart, that it
// is streamed does not.
func TestDebtsThatStayAreChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	key := Key{"up", "resp_1"}
	s := open(t, dir)
	testkit.OK(t, s.Owe(ctx, key, Debt{Kind: Response, Owner: "acme", Input: 7, Streams: true}))
	for i, want := range []Debt{{Streams: true}, {Streams: true, Untold: true, Output: 9}, {Output: 9}} {
		if i == 2 {
			testkit.OK(t, s.Close())
			s = open(t, dir)
		}
		testkit.OK(t, s.Collect(key, func(d *Debt) bool {
			if d.Streams != want.Streams || d.Untold != want.Untold || d.Output != want.Output || d.Input != 7 {
				t.Errorf("look %d: the debt is %+v, want %+v", i, *d, want)
			}
			d.Output = 9
			d.Untold = true
			return false
		}))
	}
}

// Who comes while another tries is not told that nothing is owed: it takes its turn, and
// finds what the other changed.
//
// Catches: a stream whose end comes while a look at its response finds nothing told, and
// is forgotten, so that nobody is ever charged.
func TestWhoCollectsTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "")
		key := Key{"up", "resp_1"}
		_ = s.Owe(ctx, key, Debt{Kind: Response, Owner: "acme", Streams: true})
		looked := make(chan bool)
		second := false
		go func() {
			_ = s.Collect(key, func(d *Debt) bool { <-looked; d.Untold = true; return false })
		}()
		synctest.Wait()
		go func() {
			_ = s.Collect(key, func(d *Debt) bool { second = d.Untold; return true })
		}()
		synctest.Wait()
		close(looked)
		synctest.Wait()
		if !second || s.Owes(key) {
			t.Errorf("the second was called and knows what the first found: %v; owed still: %v", second, s.Owes(key))
		}
	})
}
