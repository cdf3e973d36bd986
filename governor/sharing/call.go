package sharing

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Call is a call that goes only if all limits that hold for it let it in.
type Call struct {
	shared *governor.SharedCall
	limits []runner.AskedLimits
	takes  []taken // in the order in which the store was told
}

var _ runner.Call = (*Call)(nil)

// taken is the cost of the call on one limit.
type taken struct {
	governor.Take
	of *Limits
}

func callOf(shared *governor.SharedCall) *Call {
	c := &Call{shared: shared}
	for _, own := range shared.Limits() {
		c.limits = append(c.limits, speakerOf(own))
	}
	return c
}

// Limits are those that hold for the call.
func (c *Call) Limits() []runner.AskedLimits { return c.limits }

// Next says that calls that had asked before this one have just been answered.
func (c *Call) Next(now time.Time) { c.shared.Next(now) }

// Gone reports whether nobody waits for the answer any more.
func (c *Call) Gone() bool { return c.shared.Gone() }

// Takes lists the costs of the call on a limit's last claims, which are in the Ask's beat of this number.
// It is empty if nobody waits for the answer any more.
func (c *Call) Takes(l runner.AskedLimits, beat int) (list []parts.Take) {
	of := l.(*Limits)
	takes := c.shared.Takes(of.own)
	for i := range of.claimed {
		at := slices.IndexFunc(takes, func(t governor.Take) bool { return t.Name == of.claimed[i].Name })
		if at >= 0 {
			t := takes[at]
			c.takes = append(c.takes, taken{t, of})
			list = append(list, parts.Take{Beat: beat, Claim: i, Amount: t.Amount, Rest: t.OfBudget()})
		}
	}
	return list
}

// Let books the call against all its limits, which have let it in. It reports whether somebody still
// waits for it. If nobody does, the store counts it as used all the same.
func (c *Call) Let(now time.Time, v parts.Verdict) bool {
	var given []governor.Take
	for i, amount := range v.Given {
		t := c.takes[i]
		t.of.letIn(t.Name, amount)
		t.Amount = amount
		given = append(given, t.Take)
	}
	return c.shared.Let(now, given)
}

// Refuse says that the call was not let in, and why. Apply the answer to its limits first, because
// the refusal is explained by the usage of others.
func (c *Call) Refuse(v parts.Verdict) {
	wait := time.Duration(v.Wait) * time.Millisecond
	if v.Lacks < len(c.takes) {
		c.shared.Refuse(&c.takes[v.Lacks].Take, wait)
		return
	}
	c.shared.Refuse(nil, wait)
}

// Lose says that nobody answered.
func (c *Call) Lose() { c.shared.Lose() }
