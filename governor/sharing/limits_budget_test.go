package sharing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// daily has a budget of so many tokens a day.
func daily(tokens int64) governor.Tenant {
	return governor.Tenant{Name: "a", Weight: 1000, Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: tokens, Per: budget.Day}}}
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
		explain := func(tokens int64) governor.Outlook {
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
		if _, rej := d.ask("a", 1000); rej != nil {
			t.Fatal(rej)
		}
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
