package governor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow/budget"
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
			took := Spend{rapid.Int64Range(0, maxTokens).Draw(t, "tokens"), 1, 0}
			inHour[who][latest.Truncate(time.Hour)] += took[UnitTokens]
			row := taken.row(who)
			taken.take(now, row, took)
			read.Read(&Record{Kind: RecordEnded, Tenant: who.Tenant, Pool: who.Pool, Held: now, Ended: now, Took: Charge{Spend: took}})
			if diff := cmp.Diff(read.Changed(), map[Owner]Use{who: row.Use}); diff != "" {
				t.Fatalf("at %v: %s", now, diff)
			}
			if got, want := row.Used[budget.Hour][UnitTokens], inHour[who][latest.Truncate(time.Hour)]; got != want {
				t.Fatalf("at %v: %d tokens in this hour, %d are right", now, got, want)
			}
		}
	})
}
