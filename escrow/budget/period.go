package budget

import (
	"fmt"
	"time"
)

// Period is the length of a budget's window on the calendar.
type Period int

// The periods. A week is an ISO week: it begins on Monday. A Life is a century: nobody's budget sees its end.
const (
	Hour Period = iota
	Day
	Week
	Month
	Life
)

var periodNames = [...]string{"hour", "day", "week", "month", "life"}

func (p Period) String() string {
	if p < Hour || p > Life {
		return fmt.Sprintf("Period(%d)", int(p))
	}
	return periodNames[p]
}

// Bounds returns the period that now is in: from start, until just before end.
// A nil loc is UTC, in which a Life always is.
//
// A period begins at the first instant at which the clock on the wall in loc
// shows its first moment or a later one, and lasts until the next one begins.
// So periods tile time whatever the zone does:
//
//   - A day with a change of clocks has 23 or 25 hours (in Lord Howe, 23.5 or
//     24.5). Where midnight is skipped, the day begins with the skip.
//   - An hour that exists twice is one period of two hours. The clock showing
//     02:10 again does not bring back the budget of 02:10.
//   - Where the clock is put back over midnight, what then is yesterday again on
//     the wall belongs to the new day, which had begun.
//   - An hour or a day that is skipped has no period.
func (p Period) Bounds(now time.Time, loc *time.Location) (start, end time.Time) {
	if loc == nil || p == Life { // whose name must not change with the zone
		loc = time.UTC
	}
	wall := p.first(wallClock(now.In(loc)))
	start = reached(wall, loc)
	end = reached(p.next(wall), loc)
	// More than once only where the clock was put back over an edge, or over a
	// day that does not exist.
	for !now.Before(end) {
		wall = p.next(wall)
		start = end
		end = reached(p.next(wall), loc)
	}
	return start, end
}

// wallClock is the reading of the clock at t, written down as a time in UTC: where
// days have 24 hours, so that one can calculate with it.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), 0, 0, 0, time.UTC)
}

// first is the first moment of the period that wall is in.
func (p Period) first(wall time.Time) time.Time {
	y, m, d := wall.Date()
	switch p {
	case Hour:
		return wall
	case Day:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	case Week:
		sinceMonday := (int(wall.Weekday()) + 6) % 7
		return time.Date(y, m, d-sinceMonday, 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case Life:
		return time.Date(y-y%100, time.January, 1, 0, 0, 0, 0, time.UTC)
	default:
		panic("budget: BUG: no such period")
	}
}

// next is the first moment of the period after the one that begins at first.
func (p Period) next(first time.Time) time.Time {
	switch p {
	case Hour:
		return first.Add(time.Hour)
	case Day:
		return first.AddDate(0, 0, 1)
	case Week:
		return first.AddDate(0, 0, 7)
	case Month:
		return first.AddDate(0, 1, 0)
	default:
		return first.AddDate(100, 0, 0)
	}
}

const (
	// farthest is more than any clock has ever been away from UTC.
	farthest = 26 * time.Hour

	// grid is what the instants of all changes of clocks are multiples of.
	grid = 15 * time.Minute
)

// reached is the first instant at which the clock in loc shows wall or later.
// It walks through the stretches of time between two changes of the clock; in
// each the answer is a subtraction. time.Date would not do: for a moment that
// is skipped or there twice it does not say which instant it returns.
func reached(wall time.Time, loc *time.Location) time.Time {
	t := wall.Add(-farthest).In(loc)
	for {
		_, offset := t.Zone()
		_, change := t.ZoneBounds()
		if !change.IsZero() && !change.After(t) {
			// As Go 1.26 has it on 31 December of leap years from 2040 on.
			change = t.Add(grid)
		}
		shows := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		if shows.Before(t) {
			shows = t // skipped by the change that t is at
		}
		if change.IsZero() || shows.Before(change) {
			return shows
		}
		t = change
	}
}
