package objects

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

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
