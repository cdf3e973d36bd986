package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestSpend: the account of spend in a folder is the sum of what was added, over kills and stops, days, and books that are saved in between, and so
// is that of a store that is told now and then; and rows of long ago are deleted.
func TestSpend(t *testing.T) {
	for seed := range uint64(3) {
		testkit.Virtual(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 47))
			opt := options(t.TempDir())
			opt.Zone = time.FixedZone("east", 9*3600)
			first := time.Now()
			l := begin(t, opt, config())
			want, told := map[spend.Key]spend.Sum{}, map[spend.Key]spend.Sum{}
			tell := func(most int) int {
				rows := l.j.Spend().Untold(most)
				for _, x := range rows {
					told[x.Key] = x.Sum
				}
				l.j.Spend().Told(rows)
				return len(rows)
			}
			name := l.j.Gateway()
			for range 60 {
				switch r.IntN(9) {
				default:
					k := spend.Key{Day: spend.DayOf(time.Now().In(opt.Zone)), Tenant: []string{"a", "a/x", "b"}[r.IntN(3)], Model: "m", Upstream: "u"}
					s := spend.Sum{spend.Calls: 1, spend.Input: r.Int64N(1000), spend.MicroUSD: r.Int64N(1000)}
					l.j.Spend().Add(time.Now(), k, s)
					want[k] = want[k].Plus(s)
				case 0:
					l.kill()
					l = begin(t, opt, config())
				case 1:
					l.stop(t)
					time.Sleep(time.Duration(r.IntN(40)) * time.Hour)
					l = begin(t, opt, config())
				case 2:
					tell(2)
				case 3:
					time.Sleep(time.Duration(r.IntN(200)) * time.Second) // books are saved meanwhile
					synctest.Wait()
				}
			}
			var rows []spend.Row
			for k, s := range want {
				rows = append(rows, spend.Row{Key: k, Sum: s})
			}
			slices.SortFunc(rows, spend.Compare)
			read := func() []spend.Row {
				sums := spend.Sums{}
				testkit.OK(t, l.j.SpendRows(t.Context(), spend.DayOf(first), spend.DayOf(time.Now().AddDate(0, 0, 1)), func(r spend.Row) { sums.Add(r.Key, r.Sum) }))
				return sums.Rows()
			}
			if got := read(); !slices.Equal(got, rows) {
				t.Errorf("got %v\nwant %v", got, rows)
			}
			for tell(10) > 0 {
			}
			if !maps.Equal(told, want) {
				t.Errorf("the store has %v\nwant %v", told, want)
			}
			if got := l.j.Gateway(); got != name {
				t.Errorf("the folder's name was %s, and is %s", name, got)
			}
			l.stop(t)
			time.Sleep((spend.KeepDays + 1) * 24 * time.Hour)
			l = begin(t, opt, config())
			for tell(10) > 0 {
			}
			time.Sleep(2 * time.Minute) // books are saved
			synctest.Wait()
			if got := read(); len(got) > 0 {
				t.Errorf("after %d days there are still %v", spend.KeepDays, got)
			}
			l.stop(t)
		})
	}
}

// TestSpend_ClockBack: what is added after a restart on an earlier day than before, because the time zone or the clock was changed, is added to what
// there was.
func TestSpend_ClockBack(t *testing.T) {
	for _, west := range []int{12, 36, 60} { // hours that days go back
		testkit.Virtual(t, fmt.Sprint(west), func(t *testing.T) {
			opt := options(t.TempDir())
			opt.Zone = time.UTC
			l := begin(t, opt, config())
			var want int64
			add := func(n int) {
				for range n {
					l.j.Spend().Add(time.Now(), spend.Key{Tenant: "a", Model: "m", Upstream: "u"}, spend.Sum{spend.Calls: 1})
				}
				want += int64(n)
				l.j.Spend().Told(l.j.Spend().Untold(10))
			}
			for range 4 {
				add(100)
				l.stop(t)
				time.Sleep(25 * time.Hour)
				l = begin(t, opt, config())
			}
			l.stop(t)
			opt.Zone = time.FixedZone("west", -west*3600)
			for range 2 {
				l = begin(t, opt, config())
				add(1)
				time.Sleep(2 * time.Minute) // books are saved
				synctest.Wait()
				l.kill()
			}
			l = begin(t, opt, config())
			var got int64
			testkit.OK(t, l.j.SpendRows(t.Context(), "1999-01-01", "2999-01-01", func(r spend.Row) { got += r.Sum[spend.Calls] }))
			if got != want {
				t.Errorf("it has %d calls, want %d", got, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := l.j.SpendRows(ctx, "1999-01-01", "2999-01-01", func(spend.Row) {}); !errors.Is(err, context.Canceled) {
				t.Errorf("whoever has left is told %v", err)
			}
			l.stop(t)
		})
	}
}

// TestSpend_Frames: an addition is no record, and a record no addition.
func TestSpend_Frames(t *testing.T) {
	row := spend.Row{Key: spend.Key{Day: "2027-01-31", Tenant: "a/x", Model: "m", Upstream: "u"}, Sum: spend.Sum{1, 2, 3, 4, 5, 6, 7}}
	b := testkit.Must(appendSpent(nil, &row))(t)
	if got, ok := readSpent(payloadOf(b)); !ok || got != row {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, _, err := readFrame(b); err == nil {
		t.Error("an addition is read as a record")
	}
	frame := testkit.Must(appendFrame(nil, &record.Record{Kind: record.Admitted, Tenant: "s"}))(t)
	if _, ok := readSpent(payloadOf(frame)); ok {
		t.Error("a record is read as an addition")
	}
}
