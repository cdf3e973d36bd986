package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// A call that ran when the journal broke off took what it was booked at or had grown to, until its process ended at the latest, and what is
// written down of its past says the same.
func TestPast_Cut(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	began := now.Add(-20 * time.Second)
	for name, c := range map[string]struct {
		kind   Kind
		grown  []int64
		lived  time.Time
		tokens int64
		ended  time.Time
	}{
		"as booked":          {kind: Admitted, tokens: 500, ended: now},
		"grown":              {kind: Running, grown: []int64{900}, tokens: 900, ended: now},
		"grown, out of turn": {kind: Admitted, grown: []int64{900, 700}, tokens: 900, ended: now},
		"of a dead process":  {kind: Admitted, lived: now.Add(-10 * time.Second), tokens: 500, ended: now.Add(-10 * time.Second)},
		"of a dead clock":    {kind: Admitted, lived: now.Add(-30 * time.Second), tokens: 500, ended: began},
	} {
		t.Run(name, func(t *testing.T) {
			past := NewPast(now, time.UTC)
			if !c.lived.IsZero() {
				past.LivedUntil(c.lived)
			}
			past.Read(Record{
				Kind: c.kind, Call: 7, Tenant: "a", Pool: "p", Began: began,
				Booked: Charge{Pool: escrow.Cost{escrow.Tokens: 500, escrow.Requests: 1}, Own: limits.Cost{limits.Input: 100}},
			})
			for _, tokens := range c.grown {
				past.Read(Record{Kind: Grown, Call: 7, Booked: Charge{Pool: escrow.Cost{escrow.Tokens: tokens}}})
			}
			cut := past.Cut()
			took := escrow.Cost{escrow.Tokens: c.tokens, escrow.Requests: 1, escrow.Input: 100, escrow.Output: c.tokens - 100}
			if len(cut) != 1 || cut[0].Took.Pool != took || !cut[0].Ended.Equal(c.ended) {
				t.Fatalf("cut off is %+v, want one call that took %v until %v", cut, took, c.ended)
			}
			if again := past.Cut(); len(again) > 0 || past.CutOff() != 1 || past.Last != 7 {
				t.Errorf("then %d more, of %d in all, up to call %d", len(again), past.CutOff(), past.Last)
			}
			if diff := cmp.Diff(cut, past.State().Past(now, time.UTC).Ended); diff != "" {
				t.Errorf("written down it is another call: %s", diff)
			}
		})
	}
}
