package limits

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// Limits are the limits of a Set; 0 is none.
type Limits struct {
	// Minute are those of rolling minutes, by kind of cost.
	Minute Cost
	// Windows are further ones, at most MaxWindows. No two have the same Of, Kind and Per.
	Windows     []Window
	Concurrency int64
}

// Window is a limit on one kind of cost over another time than a rolling minute, or in another shape.
type Window struct {
	Of Axis
	shape.Rule
}

// Same reports whether two windows are the same limit, perhaps with other amounts.
func (w Window) Same(o Window) bool { return w.Of == o.Of && w.Kind == o.Kind && w.Per == o.Per }

// Name tells the limit apart from the owner's others.
func (w Window) Name() string {
	per := w.Per.String()
	if strings.HasSuffix(per, "m0s") {
		per = strings.TrimSuffix(per, "0s")
	}
	if strings.HasSuffix(per, "h0m") {
		per = strings.TrimSuffix(per, "0m")
	}
	name := w.Of.String() + " per " + per
	if w.Kind != shape.Rolling {
		name += " " + w.Kind.String()
	}
	return name
}

// books are limits, and the accounts of those that count over time. Holds refer to the books in which they stand, so limits and
// windows never change.
type books struct {
	limits   [Axes]int64          // the most that can count at once; 0 = no limit
	accounts [Timed]shape.Account // nil = no such limit
	windows  [MaxWindows]Window   // of the axes from firstWindow on
	names    [MaxWindows]string   // of the windows
	length   [Timed]time.Duration // how long use counts
}

// renew returns books of these limits. A limit that is there already keeps its axis and its account.
func (b *books) renew(now time.Time, l Limits) *books {
	next := &books{}
	next.limits[Concurrency] = l.Concurrency
	for k, limit := range l.Minute {
		if limit > 0 {
			next.set(now, Axis(k), shape.Minute(limit), b)
		}
	}
	var fresh []Window
	for _, w := range l.Windows {
		at := slices.IndexFunc(b.windows[:], w.Same)
		if at < 0 || b.accounts[firstWindow+Axis(at)] == nil {
			fresh = append(fresh, w)
			continue
		}
		next.setWindow(now, at, w, b)
	}
	for _, w := range fresh {
		at := slices.IndexFunc(next.accounts[firstWindow:], func(a shape.Account) bool { return a == nil })
		next.setWindow(now, at, w, &books{})
	}
	return next
}

func (b *books) setWindow(now time.Time, at int, w Window, before *books) {
	b.windows[at] = w
	b.names[at] = w.Name()
	b.set(now, firstWindow+Axis(at), w.Rule, before)
}

// set adds a limit, with its account in the books before if it had one there.
func (b *books) set(now time.Time, k Axis, r shape.Rule, before *books) {
	b.limits[k] = r.Capacity()
	b.length[k] = r.Window()
	b.accounts[k] = before.accounts[k]
	if b.accounts[k] == nil {
		b.accounts[k] = shape.New(now, r)
	}
	b.accounts[k].Reshape(r)
}

// Kind is the kind of cost that an axis limits; Concurrency is a kind of its own.
func (b *books) Kind(k Axis) Axis {
	if k >= firstWindow && k < Concurrency {
		return b.windows[k-firstWindow].Of
	}
	return k
}

// Amount is what a call takes of an axis. A window that a call exceeds by itself is taken whole.
func (b *books) Amount(k Axis, c Cost) int64 { return b.amounts(k, c, 1) }

// amounts is what so many calls take together.
func (b *books) amounts(k Axis, sum Cost, calls int64) int64 {
	switch {
	case k == Concurrency:
		return calls
	case k < firstWindow:
		return sum[k]
	}
	return min(sum[b.Kind(k)], calls*b.limits[k])
}

// Drains reports whether use leaves a limit at a steady rate.
func (b *books) Drains(k Axis) bool {
	return k >= firstWindow && k < Concurrency && b.windows[k-firstWindow].Kind.Bucket()
}

// Limit is the whole limit on an axis; 0 is none.
func (b *books) Limit(k Axis) int64 { return b.limits[k] }

// Limited reports whether there is any limit.
func (b *books) Limited() bool { return b.limits != [Axes]int64{} }

// Name tells the limit of an axis apart from the owner's others.
func (b *books) Name(k Axis) string {
	if k >= firstWindow && k < Concurrency {
		return b.names[k-firstWindow]
	}
	return k.String()
}
