package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/terms"
)

// Calls that are counted at their end stand in the books as a journal's records of them would, and in no other hour than that
// of their end, also when clocks are put back.
func TestUses_TakeIsARecordOfAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		taken := NewUses(time.UTC)
		read := NewUses(time.UTC)
		now := time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
		var latest time.Time
		inHour := map[Owner]map[time.Time]int64{{"a", "p"}: {}, {"b", "p"}: {}}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(-10, 100).Draw(t, "minutes")) * time.Minute)
			if now.After(latest) {
				latest = now
			}
			who := Owner{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), "p"}
			took := terms.Spend{rapid.Int64Range(0, terms.MaxTokens).Draw(t, "tokens"), 1, 0}
			inHour[who][latest.Truncate(time.Hour)] += took[terms.UnitTokens]
			row := taken.Row(now, who)
			taken.Take(now, row, took)
			read.Read(&Record{Kind: Ended, Tenant: who.Tenant, Pool: who.Pool, Held: now, Ended: now, Took: Charge{Spend: took}})
			if diff := cmp.Diff(read.Changed(), map[Owner]Use{who: row.Use}); diff != "" {
				t.Fatalf("at %v: %s", now, diff)
			}
			if got, want := row.Used[budget.Hour][terms.UnitTokens], inHour[who][latest.Truncate(time.Hour)]; got != want {
				t.Fatalf("at %v: %d tokens in this hour, %d are right", now, got, want)
			}
		}
	})
}

// TestUses_MostMembers: once as many members of a tenant have a row as may be told apart, those with other names get none.
func TestUses_MostMembers(t *testing.T) {
	u := NewUses(time.UTC)
	u.members[Owner{Tenant: "org", Pool: "p"}] = terms.MostMembers
	for _, who := range []string{"org/~", "org/~new"} {
		u.row(Owner{who, "p"})
	}
	if len(u.rows) != 1 || u.rows[Owner{"org/~", "p"}] == nil {
		t.Errorf("with as many rows as there may be %v are made", u.rows)
	}
}
