package sharing

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// askAgain is after how long a call asks again at the earliest.
const askAgain = 50 * time.Millisecond

// inStore has one tenant whose calls ask.
func inStore(t *testing.T, mode governor.LimitsMode) *governor.Governor {
	t.Helper()
	g := testkit.Must(governor.New(governor.Config{
		Shared: true, SharedLimits: true,
		Pools:   []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100, TenantLimits: mode}},
		Tenants: []governor.Tenant{limitedTenant()},
	}))(t)
	return g
}

// decideNext answers the next calls that ask: all are let in, or they lack the take of a name, of
// which others have so much.
func decideNext(g *governor.Governor, lacks string, others int64) {
	<-g.MoreShared()
	decide(g, lacks, others)
}

// decide answers the calls that ask now.
func decide(g *governor.Governor, lacks string, others int64) {
	now := time.Now()
	for _, c := range New(g).Calls() {
		for _, s := range c.Limits() {
			spoken.Store(g, s.(*Limits))
			claims := s.GiveUp(now)
			takes := c.Takes(s, 0)
			v := parts.Verdict{In: lacks == "", Wait: 7000}
			list := make([]parts.Part, len(claims))
			for i, claim := range claims {
				list[i].Part = claim.Used
				if v.In {
					v.Given = append(v.Given, takes[i].Amount)
					list[i].Part += takes[i].Amount
				}
				if claim.Name == lacks {
					v.Lacks = i
					list[i].Others = others
				}
			}
			if v.In {
				c.Let(now, v)
			}
			s.Apply(now, now.Add(2500*time.Millisecond), list)
			if !v.In {
				c.Refuse(v)
			}
		}
	}
}

// TestAsked_Books: a call that is let in is booked in all its limits and its budget, and what it
// did not take is given back when it ends.
func TestAsked_Books(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inStore(t, governor.LimitsStrict)
		go decideNext(g, "", 0)
		l := goes(t, g)
		synctest.Wait() // the answer is put in force whole
		s := limitsOf(g)
		claims, busy := s.Claims(time.Now())
		for _, c := range claims {
			if c.Want != c.Used || c.Need != 0 || c.Used != map[parts.Kind]int64{parts.Slots: 1, parts.Period: 1, parts.Rolling: c.Used}[c.Kind] {
				t.Errorf("claimed: %+v", c)
			}
		}
		if !busy || s.Gives(time.Now()) {
			t.Errorf("busy %v, gives %v", busy, s.Gives(time.Now()))
		}
		if st := g.Standing("a", "p"); st.Tokens.Remaining != 10_000-20 || st.Requests.Remaining != 59 || st.Concurrent.Remaining != 9 {
			t.Errorf("it stands at %+v", st)
		}
		l.Settle(governor.Usage{Input: 10, Output: 1})
		if !s.Gives(time.Now()) {
			t.Error("the call has ended, and there is nothing to tell")
		}
		if st := g.Standing("a", "p"); st.Tokens.Remaining != 10_000-11 || st.Concurrent.Remaining != 10 {
			t.Errorf("then it stands at %+v", st)
		}
	})
}

// TestAsked_Refused: a refusal names the limit, what all use of it, and when there will be room;
// who explains it says the same, and asks nobody.
func TestAsked_Refused(t *testing.T) {
	for lacks, want := range map[string]struct {
		others int64
		text   string
		retry  time.Duration
	}{
		"requests":    {60, "requests per min (RPM): Limit 60, Used 60, Requested 1.", 7 * time.Second},
		"tokens":      {9990, "tokens per min (TPM): Limit 10000, Used 9990, Requested 20.", 7 * time.Second},
		"concurrency": {10, "concurrent calls (concurrency): Limit 10, Used 10, Requested 1.", 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := inStore(t, governor.LimitsStrict)
			go decideNext(g, lacks, want.others)
			_, rej := call(g)
			if rej == nil || !strings.Contains(rej.Error(), want.text) || rej.RetryAfter != want.retry {
				t.Fatalf("%s: it says %v, in %v", lacks, rej, rej.RetryAfter)
			}
			o, _ := g.Explain(governor.Request{Tenant: "a", Pool: "p", Input: 10, Output: 10})
			if o.Refused == nil || o.Refused.Axis != lacks || o.Refused.Used != want.others {
				t.Errorf("%s: explained: %+v", lacks, o.Refused)
			}
		})
	}
}

// TestAsked_InLine: calls that wait behind one that was refused, though by what is known here there
// is room, name a limit that is there, and no moment that has come.
func TestAsked_InLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testkit.Must(governor.New(governor.Config{
			SharedLimits: true, Pools: []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100, TenantLimits: governor.LimitsStrict}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, MaxWait: 40 * time.Millisecond, Concurrency: 10}},
		}))(t)
		go decideNext(g, "concurrency", 0)
		go call(g)
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, rej := governor.Refused(g.Acquire(ctx, governor.Request{Tenant: "a", Pool: "p", Input: 10}))
		if rej == nil || rej.Axis != "concurrency" || rej.Limit != 10 || rej.RetryAfter < askAgain {
			t.Errorf("it says %+v", rej)
		}
		time.Sleep(time.Second)
	})
}

// TestAsked_Explain: who explains a call that nothing stands in the way of says so, though the
// process holds no part.
func TestAsked_Explain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, ok := inStore(t, governor.LimitsStrict).Explain(governor.Request{Tenant: "a", Pool: "p", Input: 10, Output: 10})
		if !ok || o.Refused != nil || o.Wait != 0 {
			t.Errorf("it says %+v", o)
		}
	})
}

// TestAsked_Remembered: what had no room is refused without asking until the time that was told,
// unless less is wanted, or more room was heard of; but not where each call asks.
func TestAsked_Remembered(t *testing.T) {
	for mode, asks := range map[governor.LimitsMode]int{governor.LimitsStrict: 3, governor.LimitsCachedDeny: 1} {
		synctest.Test(t, func(t *testing.T) {
			g := inStore(t, mode)
			n := 0
			ask := func(tokens int64, lacks string, others int64) *governor.Refusal {
				go func() {
					select {
					case <-g.MoreShared():
						n++
						decide(g, lacks, others)
					case <-time.After(100 * time.Millisecond):
					}
				}()
				l, rej := governor.Refused(g.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: tokens}))
				l.Release()
				time.Sleep(200 * time.Millisecond)
				return rej
			}
			for i := range 3 {
				if rej := ask(500, "tokens", 9600); rej == nil || i > 0 && mode == governor.LimitsCachedDeny && rej.RetryAfter > 7*time.Second-200*time.Millisecond {
					t.Errorf("mode %d: call %d: %v", mode, i, rej)
				}
			}
			if n != asks {
				t.Errorf("mode %d: three calls asked %d times", mode, n)
			}
			if rej := ask(300, "", 0); rej != nil {
				t.Errorf("mode %d: a smaller one: %v", mode, rej)
			}
			if rej := ask(500, "", 0); rej != nil {
				t.Errorf("mode %d: with more room: %v", mode, rej)
			}
		})
	}
}

// TestAsked_Validate: there are three ways.
func TestAsked_Validate(t *testing.T) {
	err := governor.Config{Pools: []governor.Pool{{Name: "p", RPM: 1, MaxQueue: 1, TenantLimits: governor.LimitsStrict + 1}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "there is no way 3") {
		t.Errorf("it says %v", err)
	}
}
