package sharing

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// limitedTenant has a limit of each kind.
func limitedTenant() governor.Tenant {
	return governor.Tenant{
		Name: "a", Weight: 1, RPM: 60, TPM: 10_000, Concurrency: 10,
		Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 100, Per: budget.Day}},
	}
}

// inCommon has one tenant, all of whose limits are kept together with others.
func inCommon(t *testing.T) *governor.Governor {
	t.Helper()
	g := testkit.Must(governor.New(governor.Config{
		SharedLimits: true,
		Pools:        []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100}},
		Tenants:      []governor.Tenant{limitedTenant()},
	}))(t)
	return g
}

// answer tells the tenant's limits, if there is anything to tell, that it may have so much
// of each, and that others have so much.
func answer(t *testing.T, g *governor.Governor, s *Limits, part, others int64) *Limits {
	t.Helper()
	for _, more := range New(g).Limits() {
		s = more.(*Limits)
		spoken.Store(g, s)
	}
	if s == nil {
		t.Fatal("there is nothing to ask for")
	}
	now := time.Now()
	claims, _ := s.Claims(now)
	var list []parts.Part
	for range claims {
		list = append(list, parts.Part{Part: part, Others: others})
	}
	s.Apply(now, now.Add(2500*time.Millisecond), list)
	return s
}

// answerNext answers the next call that waits for a part.
func answerNext(t *testing.T, g *governor.Governor, s *Limits, part, others int64) {
	t.Helper()
	<-g.MoreShared()
	answer(t, g, s, part, others)
}

// answering answers, until the test ends, whenever the tenant's limits are told of, as often as that happens: a call may be noticed
// twice. It returns how often they were.
func answering(t *testing.T, g *governor.Governor, part int64) *atomic.Int64 {
	var told atomic.Int64
	go func() {
		for {
			select {
			case <-g.MoreShared():
			case <-t.Context().Done():
				return
			}
			for _, more := range New(g).Limits() {
				s := more.(*Limits)
				spoken.Store(g, s)
				told.Add(1)
				answer(t, g, s, part, 0)
			}
		}
	}()
	return &told
}

// spoken are the tenant's limits over all pools, by their governor, once they have been listed.
var spoken sync.Map

// limitsOf are those of the tenant over all pools.
func limitsOf(g *governor.Governor) *Limits {
	l, _ := spoken.Load(g)
	return l.(*Limits)
}

const (
	// grantWait is how long a call waits for a grant, and grantRetry when it comes back.
	grantWait  = 250 * time.Millisecond
	grantRetry = limits.GrantRetry
)

func call(g *governor.Governor) (governor.Lease, *governor.Refusal) {
	return governor.Refused(g.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: 10, Output: 10}))
}

// goes is a call that is let in.
func goes(t *testing.T, g *governor.Governor) governor.Lease {
	t.Helper()
	l, rej := call(g)
	if rej != nil {
		t.Fatal(rej)
	}
	return l
}

// TestCommon_FirstCallWaits: a call that finds no part waits as long as it takes to get one,
// though its tenant waits for nothing.
func TestCommon_FirstCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go func() {
			<-g.MoreShared()
			time.Sleep(40 * time.Millisecond)
			answer(t, g, nil, 50, 0)
		}()
		l, rej := call(g)
		if rej != nil || l.Waited != 40*time.Millisecond {
			t.Fatalf("waited %v, %v", l.Waited, rej)
		}
		l.Settle(governor.Usage{Input: 10, Output: 5})
		if s := limitsOf(g); s.Owner() != "a" {
			t.Errorf("the owner is %q", s.Owner())
		}
		began := time.Now()
		l, rej = call(g)
		if rej != nil || time.Since(began) > 0 {
			t.Errorf("the second waited %v, %v", time.Since(began), rej)
		}
		l.Release()
	})
}

// TestCommon_Parts: a process uses its part and no more, shows the limit and what all use,
// and asks for more.
func TestCommon_Parts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go answerNext(t, g, nil, 200, 0)
		defer goes(t, g).Release()
		s := answer(t, g, limitsOf(g), 1, 4)
		_, rej := call(g)
		if rej == nil || rej.Waited != grantWait || rej.RetryAfter < grantRetry {
			t.Fatalf("a second call in a part of one: waited %v, retry %v: %v", rej.Waited, rej.RetryAfter, rej)
		}
		if !strings.Contains(rej.Error(), "Limit 60, Used 5, Requested 1.") {
			t.Error(rej)
		}
		if st := g.Standing("a", "p"); st.Requests.Limit != 60 || st.Requests.Remaining != 55 || st.Concurrent.Remaining != 5 {
			t.Errorf("it stands at %+v", st)
		}
		claims, busy := s.Claims(time.Now())
		for _, c := range claims {
			if c.Used != map[string]int64{"requests": 1, "tokens": 20, "concurrency": 1}[c.Name] && c.Kind != parts.Period {
				t.Errorf("used: %+v", c)
			}
			if c.Want <= c.Used || c.Want > c.Limit {
				t.Errorf("wanted: %+v", c)
			}
		}
		if len(claims) != 4 || !busy {
			t.Errorf("claims %v, busy %v", claims, busy)
		}
	})
}

// TestCommon_NobodyAnswers: a call waits in vain for a moment; once it is known that nobody
// answers, the process counts by itself, with all of the limits.
func TestCommon_NobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		if _, rej := call(g); rej == nil || rej.Waited != grantWait || rej.RetryAfter != grantRetry {
			t.Fatalf("without an answer: %+v", rej)
		}
		s := New(g).Limits()[0]
		s.Alone(time.Now(), false)
		for range 10 {
			goes(t, g)
		}
		if _, rej := call(g); rej == nil || rej.Reason != governor.ReasonConcurrency || rej.Used != 10 {
			t.Errorf("beyond its own limit: %+v", rej)
		}
	})
}

// TestCommon_Expires: parts are used until they expire, also when nobody answers, and then
// waited for anew.
func TestCommon_Expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go answerNext(t, g, nil, 200, 4)
		goes(t, g)
		s := limitsOf(g)
		s.Alone(time.Now(), false) // an answer was lost
		if st := g.Standing("a", "p"); st.Requests.Remaining != 55 {
			t.Errorf("alone while it has a part: %+v", st)
		}
		time.Sleep(2400 * time.Millisecond)
		goes(t, g)
		time.Sleep(100 * time.Millisecond)
		if _, rej := call(g); rej == nil || rej.Waited != grantWait {
			t.Errorf("with parts that have expired: %+v", rej)
		}
	})
}

// TestCommon_OldNews: what others used when that was last known refuses nobody who comes when it
// is not known any more.
func TestCommon_OldNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go answerNext(t, g, nil, 0, 100)
		if _, rej := call(g); rej == nil || rej.Reason != governor.ReasonRequests {
			t.Fatalf("beside others who used all: %+v", rej)
		}
		for len(g.MoreShared()) > 0 {
			<-g.MoreShared()
			answer(t, g, limitsOf(g), 0, 100)
		}
		time.Sleep(time.Minute)
		go answerNext(t, g, limitsOf(g), 100, 0)
		if l, rej := call(g); rej != nil {
			t.Errorf("a minute later: waited %v, %v", l.Waited, rej)
		}
	})
}

// TestCommon_Budget: what others used of a budget counts; one that is spent by all says so,
// one of which there is no part yet does not; and the next day begins with nothing used.
func TestCommon_Budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go answerNext(t, g, nil, 200, 0)
		l := goes(t, g)
		s := limitsOf(g)
		l.Settle(governor.Usage{Input: 10, Output: 10})
		of := func(part, others int64) {
			now := time.Now()
			claims, _ := s.Claims(now)
			list := make([]parts.Part, len(claims))
			for i, c := range claims {
				list[i] = parts.Part{Part: c.Limit}
				if c.Kind == parts.Period {
					list[i] = parts.Part{Part: part, Others: others}
				}
			}
			s.Apply(now, now.Add(2500*time.Millisecond), list)
		}
		of(1, 50)
		if _, rej := call(g); rej == nil || rej.Reason != governor.ReasonRequests || rej.Waited != grantWait || rej.Used != 51 || rej.Limit != 100 {
			t.Errorf("beyond the part: %+v", rej)
		} else if want := "Other nodes hold what is left of the budget of tenant a (requests per day: Limit 100, Used 51, Requested 1). Please try again in 1.500s."; rej.Error() != want {
			t.Errorf("beyond the part, the caller is told %q", rej)
		}
		of(1, 99)
		if _, rej := call(g); rej == nil || rej.Reason != governor.ReasonBudget || rej.Used != 100 {
			t.Errorf("spent by all: %+v", rej)
		}
		time.Sleep(time.Until(rej99(t, g).Resets) + time.Millisecond)
		for len(g.MoreShared()) > 0 {
			<-g.MoreShared()
		}
		go answerNext(t, g, s, 200, 0)
		if _, rej := call(g); rej != nil {
			t.Errorf("the next day: %+v", rej)
		}
	})
}

func rej99(t *testing.T, g *governor.Governor) *governor.Refusal {
	t.Helper()
	_, rej := call(g)
	if rej == nil {
		t.Fatal("a spent budget lets a call go")
	}
	return rej
}

// TestCommon_Rest: limits of which nothing counts any more are let go of, and told of again
// when they come into use.
func TestCommon_Rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		told := answering(t, g, 200)
		l := goes(t, g)
		synctest.Wait() // the answer is put in force whole
		s := limitsOf(g)
		if s.Claims(time.Now()); s.Rest(time.Now()) {
			t.Error("it rests while a call runs")
		}
		l.Settle(governor.Usage{Input: 10, Output: 10})
		if s.Claims(time.Now()); !s.Rest(time.Now()) {
			t.Error("it does not rest for one call of sixty")
		}
		for range 9 {
			goes(t, g).Settle(governor.Usage{Input: 10, Output: 10})
		}
		synctest.Wait()
		if s.Claims(time.Now()); s.Rest(time.Now()) {
			t.Error("it rests while much of a minute counts")
		}
		time.Sleep(61 * time.Second)
		if _, busy := s.Claims(time.Now()); busy || !s.Rest(time.Now()) {
			t.Error("it does not rest, though nothing counts")
		}
		before := told.Load()
		synctest.Wait()
		if told.Load() > before || len(New(g).Limits()) > 0 {
			t.Error("it is told of while it rests")
		}
		if _, rej := call(g); rej != nil {
			t.Errorf("after a rest: %v", rej)
		}
	})
}

// TestCommon_SpentStaysSpent: a gateway that has lost its store goes on counting what others
// used of a budget: that does not come back before the period ends.
func TestCommon_SpentStaysSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		go answerNext(t, g, nil, 200, 3)
		goes(t, g).Settle(governor.Usage{Input: 10, Output: 10})
		s := limitsOf(g)
		answer(t, g, s, 200, 99)
		time.Sleep(3 * time.Second)
		s.Alone(time.Now(), false)
		if _, rej := call(g); rej == nil || rej.Reason != governor.ReasonBudget || rej.Used != 100 {
			t.Errorf("alone, with a budget of 100 of which all have used 100: %+v", rej)
		}
	})
}

// TestCommon_Refresh: what others used is asked for where no calls come, and waited for; not
// for long, and not where it is known.
func TestCommon_Refresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inCommon(t)
		used := func() (took time.Duration, of int64) {
			began := time.Now()
			g.Refresh(t.Context(), "a")
			st, _ := g.TenantState("a")
			return time.Since(began), st.Budgets[0].Used
		}
		if took, _ := used(); took != grantWait {
			t.Errorf("without an answer it took %v", took)
		}
		s := New(g).Limits()[0].(*Limits)
		s.Claims(time.Now())
		if !s.Rest(time.Now()) {
			t.Fatal("it does not rest")
		}
		go func() {
			<-g.MoreShared()
			time.Sleep(20 * time.Millisecond)
			answer(t, g, s, 0, 40)
		}()
		if took, of := used(); took != 20*time.Millisecond || of != 40 {
			t.Errorf("it took %v, and %d are used", took, of)
		}
		if took, of := used(); took != 0 || of != 40 {
			t.Errorf("asked again it took %v, and %d are used", took, of)
		}
		s.Rest(time.Now())
		go func() {
			time.Sleep(20 * time.Millisecond)
			s.Alone(time.Now(), false)
		}()
		if took, _ := used(); took != 20*time.Millisecond {
			t.Errorf("where nobody answers it took %v", took)
		}
	})
}

// daily has a budget of so many tokens a day.
func daily(tokens int64) governor.Tenant {
	return governor.Tenant{Name: "a", Weight: 1, Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: tokens, Per: budget.Day}}}
}

// TestCommon_LargerCall: a call that takes more of a budget than those before it waits for a
// larger part, as the first one did, also while others run.
func TestCommon_LargerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{daily(100_000)}})
		for _, tokens := range []int64{1000, 20_000, 50_000} {
			l, rej := d.ask("a", tokens)
			if rej != nil || l.Waited > grantWait/2 {
				t.Fatalf("%d tokens: waited %v: %v", tokens, l.Waited, rej)
			}
		}
		_, rej := d.ask("a", 50_000)
		if rej == nil || rej.Reason != governor.ReasonTokens || rej.Used != 71_000 {
			t.Errorf("beyond it: %v", rej)
		}
	})
}

// TestCommon_Burst: calls that come at once have their parts in one round trip or two.
func TestCommon_Burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 20*time.Millisecond, governor.Config{Tenants: []governor.Tenant{daily(1_000_000)}})
		for range 2 {
			waited := make(chan time.Duration)
			for range 50 {
				go func() {
					l, rej := d.ask("a", 10_000)
					if rej != nil {
						t.Error(rej)
					}
					waited <- l.Waited
				}()
			}
			for range 50 {
				if w := <-waited; w > 3*d.away {
					t.Errorf("waited %v", w)
				}
			}
		}
	})
}

// TestCommon_GoesWithWhatIsLeft: a call for which a budget has no room goes with what is left of
// it where nothing else runs, but not with what is left of a part.
func TestCommon_GoesWithWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{daily(10_000)}})
		d.answers(func(parts.Claim) parts.Part { return parts.Part{Part: 10, Others: 4000} })
		if _, rej := d.ask("a", 7000); rej == nil || rej.Reason != governor.ReasonTokens || rej.Waited != grantWait || rej.RetryAfter != grantRetry {
			t.Errorf("with a part of 10: %+v", rej)
		}
		d.answers(func(parts.Claim) parts.Part { return parts.Part{Part: 6000, Others: 4000} })
		d.answer(d.limits("a"))
		if l, rej := d.ask("a", 7000); rej != nil || l.Waited > 0 {
			t.Errorf("with all that is left: waited %v: %v", l.Waited, rej)
		}
	})
}

// TestCommon_Shadow: a shadow, which waits for no part, would not have been refused for want of
// one.
func TestCommon_Shadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := daily(10_000)
		tenant.Shadow = true
		tenant.RPM = 10
		d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{tenant}})
		for _, tokens := range []int64{1000, 3000} {
			l, rej := d.ask("a", tokens)
			if rej != nil || l.Would != nil || l.Waited > 0 {
				t.Errorf("%d tokens: waited %v, would %v: %v", tokens, l.Waited, l.Would, rej)
			}
			l.Settle(governor.Usage{Input: tokens})
			time.Sleep(time.Second)
		}
		d.answers(func(c parts.Claim) parts.Part { return parts.Part{Part: c.Used, Others: c.Limit - c.Used} })
		d.answer(d.limits("a"))
		if l, rej := d.ask("a", 10); rej != nil || l.Would == nil || l.Would.Reason != governor.ReasonRequests {
			t.Errorf("where all is used: would %v: %v", l.Would, rej)
		}
	})
}

// TestCommon_Explain: to ask what a call would meet changes nothing; and a call that would only
// wait for a part is not refused.
func TestCommon_Explain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := daily(10_000)
		tenant.RPM = 10
		tenant.TPM = 10_000
		tenant.Concurrency = 3
		d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{tenant}})
		explain := func(tokens int64) governor.Forecast {
			o, ok := d.g.Explain(governor.Request{Tenant: "a", Pool: "p", Input: tokens})
			if !ok {
				t.Fatal("no such tenant")
			}
			return o
		}
		if o := explain(1000); o.Refused != nil || o.Wait > grantWait {
			t.Errorf("at first: refused %v, wait %v", o.Refused, o.Wait)
		}
		time.Sleep(time.Second)
		if d.owners() > 0 {
			t.Error("to ask was told to other processes")
		}
		d.goes(t, 1000)
		if o := explain(5000); o.Refused != nil || o.Wait > grantWait {
			t.Errorf("of a larger one: refused %v, wait %v", o.Refused, o.Wait)
		}
		if o := explain(10_000); o.Refused == nil || o.Refused.Reason != governor.ReasonTokens || o.Refused.Used != 1000 {
			t.Errorf("of one that is too large: refused %v", o.Refused)
		}
	})
}

// TestCommon_HeldElsewhere: a budget of which calls in other processes hold the rest is not
// spent, and who asks for it is told to come back: soon if the call fits when those give all
// back, else when the budget resets.
func TestCommon_HeldElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, 10*time.Millisecond, governor.Config{Tenants: []governor.Tenant{daily(10_000)}})
		d.answers(func(parts.Claim) parts.Part { return parts.Part{Others: 10_000, Held: 100} })
		for range 2 {
			_, rej := d.ask("a", 100)
			if rej == nil || rej.Reason != governor.ReasonTokens || rej.RetryAfter > time.Second || rej.Used != 10_000 {
				t.Errorf("held elsewhere: %+v", rej)
			}
		}
		d.answers(func(parts.Claim) parts.Part { return parts.Part{Others: 10_000, Held: 1} })
		d.answer(d.limits("a"))
		if _, rej := d.ask("a", 100); rej == nil || rej.Reason != governor.ReasonTokens || rej.RetryAfter != time.Until(rej.Resets) {
			t.Errorf("one of 100 tokens is held elsewhere: %+v", rej)
		}
		d.answers(func(parts.Claim) parts.Part { return parts.Part{Others: 10_000} })
		d.answer(d.limits("a"))
		if _, rej := d.ask("a", 100); rej == nil || rej.Reason != governor.ReasonBudget {
			t.Errorf("spent: %+v", rej)
		}
	})
}

// TestCommon_FarPlaces: who was told to come back after a minute, long before its turn, is no demand until about its turn.
func TestCommon_FarPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		window := limits.Window{Of: limits.Requests, Rule: shape.Rule{Kind: shape.Rolling, Amount: 1, Per: 10 * time.Minute}}
		d := openDesk(t, 10*time.Millisecond, governor.Config{
			Pools:   []governor.Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100, TicketWait: 10 * time.Second}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, Windows: []limits.Window{window}}},
		})
		began := time.Now()
		d.goes(t, 10)
		claim := escrow.Claim{Key: 1, Retry: escrow.RetryFirst}
		if _, rej := governor.Refused(d.g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: 10, Claim: claim})); rej == nil {
			t.Fatal("there is room for two")
		}
		awaited := [2]int{}
		for at := time.Second; at < 11*time.Minute; at += time.Second {
			near := 0
			if at > 9*time.Minute+50*time.Second {
				near = 1
			}
			awaited[near] += int(d.limits("a").own.Demand(began.Add(at)).Parts[0].Waiting)
		}
		if awaited[0] > 0 || awaited[1] < 2 {
			t.Errorf("it is awaited for %d s before its turn, and for %d s at it", awaited[0], awaited[1])
		}
	})
}
