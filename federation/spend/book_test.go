package spend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

// TestBook: a journal and a store that both fail at times have all that was added, to the token, whatever happened in between: rows that changed
// while the store was told, rows that it was told of twice, days that ended, and new processes.
func TestBook(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 47))
		now := noon
		var added Sum
		var log []Row                               // since the books were saved
		saved, told := map[Key]Sum{}, map[Key]Sum{} // what outlives the process
		book := NewBook(time.UTC)
		keep := func(x Row) { log = append(log, x) }
		book.LogTo(keep)
		tell := func(fails bool) {
			rows := book.Untold(1 + r.IntN(4))
			for _, x := range rows {
				told[x.Key] = x.Sum
			}
			if r.IntN(2) == 0 { // a call ends meanwhile
				s := Sum{Calls: 1, MicroUSD: 3}
				book.Add(now, Key{Tenant: "t0", Model: "m"}, s)
				added = added.Plus(s)
			}
			if !fails {
				book.Told(rows)
			}
		}
		for range 300 {
			switch r.IntN(12) {
			default:
				s := Sum{Calls: 1, Input: r.Int64N(100), MicroUSD: r.Int64N(1000)}
				book.Add(now, Key{Tenant: fmt.Sprint("t", r.IntN(3)), Model: "m"}, s)
				added = added.Plus(s)
			case 0:
				tell(true)
			case 1, 2:
				tell(false)
			case 3:
				rows, err := book.Turn(func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range rows {
					saved[x.Key] = x.Sum
				}
				log = nil
				book.Forget(DayOf(now))
			case 4:
				if _, err := book.Turn(func() error { return errors.New("the disk is full") }); err == nil {
					t.Error("an error is lost")
				}
			case 5:
				now = now.Add(time.Duration(r.IntN(30)-3) * time.Hour) // a clock may be put back
			case 6: // killed
				book = NewBook(time.UTC)
				for k, s := range saved {
					book.Load(Row{k, s})
				}
				for _, x := range log {
					book.Restore(x)
				}
				book.LogTo(keep)
			}
		}
		for rows := book.Untold(7); len(rows) > 0; rows = book.Untold(7) {
			for _, x := range rows {
				told[x.Key] = x.Sum
			}
			book.Told(rows)
		}
		var sum Sum
		for _, s := range told {
			sum = sum.Plus(s)
		}
		if sum != added {
			t.Fatalf("seed %d: the store has %v of %v", seed, sum, added)
		}
	}
}

func rowsOf(b *Book, day string) (rows []Row) {
	b.Rows(day, day, func(r Row) { rows = append(rows, r) })
	return rows
}

// TestBook_Bounded: names without end make a bounded number of rows, and nothing is lost of the sum.
func TestBook_Bounded(t *testing.T) {
	b := NewBook(time.UTC)
	b.most = 10
	for i := range 1000 {
		b.Add(noon, Key{Tenant: fmt.Sprint("t", i%3), Model: fmt.Sprint("m", i), Upstream: "u"}, Sum{Calls: 1})
		b.Add(noon, Key{Tenant: "t0", Model: "m0", Upstream: "u"}, Sum{Calls: 1})
	}
	rows := rowsOf(b, "2027-01-31")
	var total Sum
	for _, r := range rows {
		total = total.Plus(r.Sum)
	}
	if len(rows) > 13 || total[Calls] != 2000 {
		t.Errorf("%d rows with %v", len(rows), total)
	}
	b.Add(noon.AddDate(0, 0, 1), Key{Tenant: "t0", Model: "new", Upstream: "u"}, Sum{Calls: 1})
	if rows = rowsOf(b, "2027-02-01"); len(rows) != 1 || rows[0].Model != "new" {
		t.Errorf("the next day has %v", rows)
	}
	b = NewBook(time.UTC)
	b.most = 10
	for i := range 9 { // an earlier process had rows of the day before
		b.Restore(Row{Key{"2027-01-30", "t0", fmt.Sprint("m", i), "u"}, Sum{Calls: 1}})
	}
	b.Restore(Row{Key{"2027-01-31", "t0", "m0", "u"}, Sum{Calls: 1}})
	b.Add(noon, Key{Tenant: "t0", Model: "m1", Upstream: "u"}, Sum{Calls: 1})
	if rows = rowsOf(b, "2027-01-31"); len(rows) != 2 || rows[0].Model == Other || rows[1].Model == Other {
		t.Errorf("the day of a new process has %v", rows)
	}
}

// TestBook_NeverTold: rows that no store wants to know of are kept for so many days, and no longer.
func TestBook_NeverTold(t *testing.T) {
	for i, want := range map[int]int{0: 1, KeepDays: 2, KeepDays + 1: 1, 3 * KeepDays: 1} {
		b := NewBook(time.UTC)
		for _, day := range []int{0, i} {
			now := noon.AddDate(0, 0, day)
			b.Add(now, Key{Tenant: "a"}, Sum{Calls: 1})
			if _, err := b.Turn(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			b.Forget(DayOf(now))
		}
		if n := len(b.Untold(10)); n != want || b.Len() != want {
			t.Errorf("after %d days %d rows are untold of %d, want %d", i, n, b.Len(), want)
		}
	}
}

// TestSums: rows are added up by keys, and in their order.
func TestSums(t *testing.T) {
	sums := Sums{}
	for i, k := range []Key{{Tenant: "a", Model: "x"}, {Tenant: "a"}, {Tenant: "a", Model: "x"}, {Day: "2027-01-01"}} {
		sums.Add(k, Sum{Calls: 1 << i})
	}
	if want := []Row{{Key{Tenant: "a"}, Sum{Calls: 2}}, {Key{Tenant: "a", Model: "x"}, Sum{Calls: 5}}, {Key{Day: "2027-01-01"}, Sum{Calls: 8}}}; !slices.Equal(sums.Rows(), want) {
		t.Errorf("got %v, want %v", sums.Rows(), want)
	}
}
