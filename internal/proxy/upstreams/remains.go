package upstreams

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Left is how much an answer says is left of a limit; a Limit of 0 is nothing said.
type Left struct {
	Limit, Left int64
	Window      time.Duration // in which the limit counts
	Reset       time.Duration // until all of it is left again, if nothing more is used; 0 is not said
}

// Remains are what is left of the limits that [Reader.Read] reads, by axis.
type Remains [limits.Kinds]Left

// Remains reads what an answer says is left.
func (r *Reader) Remains(h http.Header, now time.Time) (all Remains) {
	if r.Elsewhere != "" && h[r.Elsewhere] != nil {
		return all
	}
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		now = at
	}
	for i := range r.Counts {
		c := &r.Counts[i]
		if left := h[c.Left]; left != nil {
			all.lower(c.Of, number(h[c.Limit]), amount(left[0]), cmp.Or(number(h[c.Period]), c.Window), after(h.Get(c.Reset), now))
		}
	}
	if states := h["Ratelimit"]; states != nil && all == (Remains{}) {
		for _, p := range items(h["Ratelimit-Policy"]) {
			for _, s := range items(states) {
				of, known := p.axis()
				if left, said := s.n["r"]; known && said && s.name == p.name {
					all.lower(of, p.n["q"], left, p.n["w"], meant(float64(s.n["t"])))
				}
			}
		}
	}
	return all
}

// lower notes what is left of a limit, if that is the lowest on its axis. A window of 0 seconds is a minute.
func (all *Remains) lower(of limits.Axis, limit, left, window int64, reset time.Duration) {
	l := Left{Limit: limit, Left: left, Window: time.Duration(cmp.Or(window, 60)) * time.Second, Reset: reset}
	if limit > 0 && left >= 0 && (all[of].Limit == 0 || l.minute(limit) < all[of].minute(all[of].Limit)) {
		all[of] = l
	}
}

// minute is an amount of the window as one of a minute.
func (l *Left) minute(n int64) int64 {
	return int64(float64(n) * float64(time.Minute) / float64(l.Window))
}

// amount reads how much is left: 0 of what is overdrawn, and -1 if there is no limit, or no number.
func amount(text string) int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || n == -1 || n != n {
		return -1
	}
	return int64(min(max(n, 0), 1_000_000_000_000))
}
