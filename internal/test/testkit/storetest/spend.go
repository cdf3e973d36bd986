package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// RunSpend tests the account of spend of a store: the rows of two gateways are added up; one that is told twice, or late, counts once; old days are deleted.
func RunSpend(t *testing.T, s store.Spend) {
	t.Helper()
	ctx := t.Context()
	today := spend.DayOf(time.Now().UTC())
	row := func(day, tenant string, calls int64) spend.Row {
		return spend.Row{Key: spend.Key{Day: day, Tenant: tenant, Model: "m", Upstream: "u"}, Sum: spend.Sum{spend.Calls: calls, spend.MicroUSD: 1_000_000_000_000_001 * calls}}
	}
	old := spend.DayOf(time.Now().AddDate(0, 0, -spend.KeepDays-2))
	for _, put := range []struct {
		gateway string
		rows    []spend.Row
	}{
		{"one", []spend.Row{row(today, "a", 1), row(today, "a/x", 7)}},
		{"two", []spend.Row{row(today, "a", 100), row(old, "a", 5)}},
		{"one", []spend.Row{row(today, "a", 3)}},
		{"one", []spend.Row{row(today, "a", 3)}},
		{"one", []spend.Row{row(today, "a", 2)}}, // late
	} {
		testkit.OK(t, s.PutSpend(ctx, put.gateway, put.rows))
	}
	read := func(from, to string) []spend.Row {
		sums := spend.Sums{}
		testkit.OK(t, s.SpendRows(ctx, from, to, func(r spend.Row) { sums.Add(r.Key, r.Sum) }))
		return sums.Rows()
	}
	got := read(old, today)
	if want := []spend.Row{row(today, "a", 103), row(today, "a/x", 7)}; !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got = read(old, old); len(got) > 0 {
		t.Errorf("another day has %v", got)
	}
}
