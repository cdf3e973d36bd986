package budget

import (
	"testing"
	"time"
	_ "time/tzdata" // the machine that tests may have none

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func wantUsed(t *testing.T, b interface{ Used(time.Time) int64 }, now time.Time, want int64) {
	t.Helper()
	if got := b.Used(now); got != want {
		t.Errorf("%d is used, want %d", got, want)
	}
}

// One call at a time, over the end of a day and back.
//
// Seen failing with: a refund given after its period; an excess dropped after
// its period.
func TestCapOverMidnight(t *testing.T) {
	b := NewCap(100, Day, nil)
	noon := at("2026-05-05 12:00")
	late := at("2026-05-05 23:59")
	next := at("2026-05-06 00:01")

	a, ans := b.Hold(noon, 60)
	if want := (Answer{OK: true, Ceiling: 100, Remaining: 40}); ans != want {
		t.Fatalf("got %+v, want %+v", ans, want)
	}
	_, ans = b.Hold(noon, 50)
	if ans != (Answer{Ceiling: 100, Remaining: 40, RetryAt: at("2026-05-06 00:00")}) {
		t.Errorf("a call that does not fit: %+v", ans)
	}
	_, ans = b.Hold(noon, 101)
	if ans.OK || !ans.RetryAt.IsZero() {
		t.Errorf("a call larger than the limit can retry: %+v", ans)
	}
	b.Settle(noon, a, 10)
	wantUsed(t, b, noon, 10)
	over, _ := b.Hold(late, 20)
	refund, _ := b.Hold(late, 30)
	wantUsed(t, b, late, 60)

	wantUsed(t, b, next, 0) // calls in flight have been counted yesterday
	b.Settle(next, refund, 5)
	wantUsed(t, b, next, 0) // yesterday is over, and today gets no present
	b.Settle(next, over, 27)
	wantUsed(t, b, next, 7) // what nobody could count yesterday

	wantUsed(t, b, noon, 7) // a clock that steps back opens nothing
	if got := b.ResetAt(noon); !got.Equal(at("2026-05-07 00:00")) {
		t.Errorf("resets at %v", got)
	}
}

// A budget of money in the tenant's own month.
func TestCapOfMoneyInAZone(t *testing.T) {
	b := NewCap(500*USD, Month, zone(t, "America/New_York"))
	now := at("2026-03-01 04:59") // still February there
	if _, ans := b.Hold(now, 499_999_999); !ans.OK || ans.Remaining != 1 {
		t.Errorf("%+v", ans)
	}
	_, ans := b.Hold(now, 2)
	if ans.OK || !ans.RetryAt.Equal(at("2026-03-01 05:00")) {
		t.Errorf("%+v", ans)
	}
	_, ans = b.Hold(ans.RetryAt, 2)
	if !ans.OK {
		t.Errorf("%+v", ans)
	}
}

// Calls that take far more than they hold neither overflow the books nor are
// forgotten.
func TestCapInDebt(t *testing.T) {
	b := NewCap(10, Hour, nil)
	now := at("2026-05-05 12:00")
	for range 2_000_000 {
		b.Settle(now, Hold{}, 1<<62)
	}
	wantUsed(t, b, now, maxUsed)
	if _, ans := b.Hold(now, 1); ans.OK || ans.Remaining != 0 {
		t.Errorf("%+v", ans)
	}
	b.SetLimit(-1)
	if b.Limit() != 0 {
		t.Errorf("limit %d", b.Limit())
	}
}

// Several processes that are told after each call what was used in the others decide as one does. (Who
// is present in the next period they know for themselves: of a call that was refused they are not told.)
func TestElsewhere_AsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const processes = 3
		now := at("2026-05-05 12:00")
		cfg := Config{Limit: rapid.Int64Range(1, 2000).Draw(t, "limit"), Period: Hour}
		names := []string{"a", "b", "c", "d"}
		one := NewSplit(cfg)
		list := make([]*Split, processes)
		ids := make([]map[string]MemberID, processes+1)
		all := append(list, nil)
		for i := range all {
			all[i] = NewSplit(cfg)
			if i == processes {
				all[i] = one
			}
			ids[i] = map[string]MemberID{}
			for n, name := range names {
				ids[i][name] = all[i].Add(now, name, int64(1000*(n+1)))
			}
		}
		list = all[:processes]
		exchange := func() { // as of what each had before
			here := make([]map[string]int64, processes)
			for i, s := range list {
				here[i] = map[string]int64{}
				for _, name := range names {
					here[i][name] = s.HereBy(now, ids[i][name])
				}
			}
			for i, s := range list {
				sum := int64(0)
				for _, name := range names {
					others := int64(0)
					for j := range list {
						if j != i {
							others += here[j][name]
						}
					}
					s.Elsewhere(now, ids[i][name], others)
					sum += others
				}
				s.ElsewhereInAll(now, sum)
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
				if s.Used(now) != one.Used(now) {
					t.Fatalf("process %d has %d used, want %d", i, s.Used(now), one.Used(now))
				}
			}
		}
		type call struct {
			at        int
			here, one Hold
		}
		var running []call
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "who")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.Int64Range(0, 59).Draw(t, "seconds")) * time.Second)
			case 1:
				if len(running) == 0 {
					continue
				}
				c := running[0]
				running = running[1:]
				took := rapid.Int64Range(0, 2*c.one.Amount()).Draw(t, "took")
				list[c.at].Settle(now, c.here, took)
				one.Settle(now, c.one, took)
			default:
				i := rapid.IntRange(0, processes-1).Draw(t, "where")
				cost := rapid.Int64Range(1, 500).Draw(t, "cost")
				h, got := list[i].Hold(now, ids[i][name], cost)
				g, want := one.Hold(now, ids[processes][name], cost)
				if got.OK != want.OK || got.Remaining != want.Remaining || got.Ceiling != want.Ceiling {
					t.Fatalf("%s asks for %d: %+v, and one process says %+v", name, cost, got, want)
				}
				if want.OK {
					running = append(running, call{i, h, g})
				}
			}
			exchange()
		}
	})
}

// What a member used elsewhere counts against its share, and what somebody did who is not here
// against all; each once, also as members come and go; and nothing in the next period.
func TestElsewhere_Members(t *testing.T) {
	x := newScript(t, Config{Limit: 400, Period: Hour}, map[string]int64{"a": 1000, "b": 1000})
	x.s.Elsewhere(x.now, x.ids["a"], 150)
	x.s.ElsewhereInAll(x.now, 150)
	x.ask("a", 51, false)
	x.ask("a", 50, true)
	x.s.ElsewhereInAll(x.now, 250) // a hundred are of somebody else's: 300 are shared
	x.ask("b", 101, false)
	x.s.Remove(x.now, x.ids["a"])
	wantUsed(t, x.s, x.now, 150)
	x.s.ElsewhereInAll(x.now, 250)
	wantUsed(t, x.s, x.now, 300)
	x.ids["a"] = x.s.Add(x.now, "a", 1000)
	x.s.Elsewhere(x.now, x.ids["a"], 150)
	wantUsed(t, x.s, x.now, 300)
	x.s.ElsewhereInAll(x.now, 250)
	wantUsed(t, x.s, x.now, 300)
	if n := x.s.HereBy(x.now, x.ids["a"]); n != 50 || x.s.Here() != 50 {
		t.Errorf("here a used %d, and all %d", n, x.s.Here())
	}
	x.s.Elsewhere(x.now, x.ids["a"], 100) // calls there have given something back
	x.s.ElsewhereInAll(x.now, 200)
	x.ask("b", 100, true)
	x.ask("b", 51, false)
	x.minute(60)
	wantUsed(t, x.s, x.now, 0)
	x.ask("a", 200, true)
}

// A process that begins in the middle of a period takes what it hears of for use that was spread
// over it, and not for a share that was let pass and then used.
func TestElsewhere_Late(t *testing.T) {
	x := newScript(t, Config{Limit: 400, Period: Hour}, map[string]int64{"a": 1000, "b": 1000})
	x.minute(30)
	for _, name := range []string{"a", "b"} {
		x.s.Elsewhere(x.now, x.ids[name], 100)
	}
	x.s.ElsewhereInAll(x.now, 200)
	x.ask("a", 101, false)
	x.ask("a", 100, true)
	x.ask("b", 100, true)
}

// The use of all is told before that of the member whose it is: the member has let pass what it had let pass before.
func TestElsewhere_News(t *testing.T) {
	x := newScript(t, Config{Limit: 400, Period: Hour}, map[string]int64{"a": 1000, "b": 1000})
	x.minute(30)
	x.s.ElsewhereInAll(x.now, 0)
	x.s.ElsewhereInAll(x.now, 100)
	x.s.Elsewhere(x.now, x.ids["a"], 100)
	x.s.ElsewhereInAll(x.now, 100)
	x.ask("b", 300, true)
}

func zone(t testing.TB, name string) *time.Location {
	return testkit.Must(time.LoadLocation(name))(t)
}

// Around every odd thing that zones do. Times are instants, so that there is
// nothing to interpret; length is end - start.
//
// Seen failing with: ZoneBounds trusted (it never returns in 2040); time.Date in
// the zone; the loop in Bounds left out (St Johns); a skipped midnight not moved
// to the change; weeks from Sunday; months of 30 days.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		zone   string
		period Period
		now    string
		start  string
		length string
		what   string
	}{
		{"UTC", Hour, "2026-05-05T11:22:33Z", "2026-05-05T11:00:00Z", "1h", "a plain hour"},
		{"UTC", Day, "2026-05-05T00:00:00Z", "2026-05-05T00:00:00Z", "24h", "the first instant is inside"},
		{"UTC", Day, "2026-05-04T23:59:59.999999999Z", "2026-05-04T00:00:00Z", "24h", "the last instant is inside"},
		{"UTC", Month, "2026-04-30T23:59:59Z", "2026-04-01T00:00:00Z", "720h", "30 days"},
		{"UTC", Month, "2026-01-31T12:00:00Z", "2026-01-01T00:00:00Z", "744h", "31 days, and no 31 February after"},
		{"UTC", Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "696h", "leap year"},
		{"UTC", Month, "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "672h", "no leap year"},
		{"UTC", Month, "2026-12-31T23:00:00Z", "2026-12-01T00:00:00Z", "744h", "end of a year"},
		{"UTC", Life, "2026-12-31T23:00:00Z", "2000-01-01T00:00:00Z", "876600h", "a century, which is no end"},
		{"Asia/Tokyo", Life, "2026-12-31T23:00:00Z", "2000-01-01T00:00:00Z", "876600h", "the same in all zones"},
		{"UTC", Week, "2027-01-01T05:00:00Z", "2026-12-28T00:00:00Z", "168h", "ISO week 53 over new year"},
		{"UTC", Week, "2025-12-30T05:00:00Z", "2025-12-29T00:00:00Z", "168h", "ISO week 1 begins in the old year"},
		{"UTC", Week, "2026-03-08T23:00:00Z", "2026-03-02T00:00:00Z", "168h", "Sunday ends the week"},

		{"Europe/Berlin", Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "23h", "spring forward"},
		{"Europe/Berlin", Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "25h", "fall back"},
		{"Europe/Berlin", Hour, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "1h", "03:00 comes after 01:59"},
		{"Europe/Berlin", Hour, "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2h", "02:30 for the first time"},
		{"Europe/Berlin", Hour, "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", "2h", "02:30 for the second time"},
		{"Europe/Berlin", Week, "2026-03-29T21:59:59Z", "2026-03-22T23:00:00Z", "167h", "week with 23 hours of Sunday"},
		{"Europe/Berlin", Month, "2026-10-31T12:00:00Z", "2026-09-30T22:00:00Z", "745h", "October has an hour more"},
		{"America/New_York", Day, "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "23h", "spring forward"},
		{"America/New_York", Day, "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "25h", "fall back"},
		{"America/New_York", Day, "2007-03-11T12:00:00Z", "2007-03-11T05:00:00Z", "23h", "the first March change"},

		{"Europe/Berlin", Day, "2040-12-31T12:00:00Z", "2040-12-30T23:00:00Z", "24h", "where ZoneBounds ends before it begins"},
		{"America/New_York", Month, "2088-12-31T23:00:00Z", "2088-12-01T05:00:00Z", "744h", "the same"},

		{"Asia/Kolkata", Day, "2026-05-05T18:29:59Z", "2026-05-04T18:30:00Z", "24h", "UTC+5:30"},
		{"Asia/Kolkata", Hour, "2026-05-05T18:29:59Z", "2026-05-05T17:30:00Z", "1h", "hours begin at half past UTC"},
		{"Asia/Kathmandu", Hour, "2026-05-05T18:14:59Z", "2026-05-05T17:15:00Z", "1h", "UTC+5:45"},
		{"Australia/Lord_Howe", Day, "2026-10-04T02:00:00Z", "2026-10-03T13:30:00Z", "23h30m", "half an hour forward"},
		{"Australia/Lord_Howe", Day, "2026-04-05T02:00:00Z", "2026-04-04T13:00:00Z", "24h30m", "half an hour back"},
		{"Australia/Lord_Howe", Hour, "2026-04-04T15:10:00Z", "2026-04-04T14:00:00Z", "1h30m", "01:40 for the second time"},
		{"Australia/Lord_Howe", Hour, "2026-10-03T15:40:00Z", "2026-10-03T15:30:00Z", "30m", "02:30 comes after 01:59"},

		{"Asia/Beirut", Day, "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "23h", "midnight is skipped"},
		{"Asia/Beirut", Day, "2026-03-28T21:59:59Z", "2026-03-27T22:00:00Z", "24h", "the day before a skipped midnight"},
		{"America/Sao_Paulo", Day, "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "23h", "midnight is skipped"},
		{"America/Sao_Paulo", Day, "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "25h", "23:30 for the second time"},
		{"America/Sao_Paulo", Month, "2018-11-30T12:00:00Z", "2018-11-01T03:00:00Z", "719h", "month with a skipped midnight"},
		{"America/St_Johns", Day, "2006-10-29T03:00:00Z", "2006-10-29T02:30:00Z", "25h", "put back over midnight: yesterday does not return"},
		{"Pacific/Apia", Day, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "24h", "30 December never was"},
		{"Pacific/Apia", Day, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "24h", "the day before it"},
		{"Pacific/Apia", Week, "2011-12-30T10:00:00Z", "2011-12-26T10:00:00Z", "144h", "a week of six days"},
	} {
		now := testkit.Must(time.Parse(time.RFC3339Nano, tc.now))(t)
		start, end := tc.period.Bounds(now, zone(t, tc.zone))
		if got := start.UTC().Format(time.RFC3339); got != tc.start {
			t.Errorf("%s %v, %s: starts at %s, want %s", tc.zone, tc.period, tc.what, got, tc.start)
		}
		if want, _ := time.ParseDuration(tc.length); end.Sub(start) != want {
			t.Errorf("%s %v, %s: lasts %v, want %v", tc.zone, tc.period, tc.what, end.Sub(start), want)
		}
	}
}

var oddZones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "Europe/Istanbul",
	"America/New_York", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "America/Caracas",
	"America/Santiago", "America/Asuncion", "America/Anchorage", "America/Nuuk", "America/Scoresbysund",
	"Asia/Beirut", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Gaza", "Asia/Amman", "Asia/Pyongyang",
	"Australia/Lord_Howe", "Australia/Eucla", "Antarctica/Troll", "Antarctica/Casey", "Africa/Casablanca", "Africa/Cairo",
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Fakaofo",
}

// Periods tile time: now is inside, every instant inside names the same period,
// the next one begins where it ends, and it lasts about as long as it should.
//
// Seen failing with: time.Date in the zone; months of 30 days; ZoneBounds
// trusted.
func TestPeriodsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := testkit.Must(time.LoadLocation(rapid.SampledFrom(oddZones).Draw(t, "zone")))(t)
		p := rapid.SampledFrom([]Period{Hour, Day, Week, Month, Life}).Draw(t, "period")
		now := time.Unix(rapid.Int64Range(315532800, 4133980799).Draw(t, "now"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		if rapid.Bool().Draw(t, "near a change") {
			if _, change := now.In(loc).ZoneBounds(); !change.IsZero() && change.Year() < 2100 {
				now = change.Add(time.Duration(rapid.Int64Range(-3*3600, 3*3600).Draw(t, "seconds")) * time.Second)
			}
		}
		start, end := p.Bounds(now, loc)
		if now.Before(start) || !now.Before(end) {
			t.Fatalf("%v is not in %v … %v", now, start, end)
		}
		for _, inside := range []time.Time{start, end.Add(-1), start.Add(end.Sub(start) / 3)} {
			if s, e := p.Bounds(inside, loc); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("%v is in %v … %v, but its period is %v … %v", inside, start, end, s, e)
			}
		}
		if s, _ := p.Bounds(end, loc); !s.Equal(end) {
			t.Fatalf("the period after %v … %v starts at %v", start, end, s)
		}
		if _, e := p.Bounds(start.Add(-1), loc); !e.Equal(start) {
			t.Fatalf("the period before %v … %v ends at %v", start, end, e)
		}
		usual := map[Period]time.Duration{Hour: time.Hour, Day: 24 * time.Hour, Week: 168 * time.Hour, Month: 31 * 24 * time.Hour, Life: 36525 * 24 * time.Hour}[p]
		if d := end.Sub(start); d > 2*usual+24*time.Hour {
			t.Fatalf("a %v of %v: %v … %v", p, d, start, end)
		}
	})
}
