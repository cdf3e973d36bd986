package federation

import (
	"math"
	"sort"
)

// This file finds how much each unit of weight gets. It is of share.go, and so is the
// rule for floats.

// line is how a curve goes near a level: what is used there, and how fast that rises, which
// is the same between from and to.
type line struct {
	from, to   float64
	use, slope [axes]float64
}

// lineAt is how a curve goes near a level.
func lineAt(curve []Point, level float64) line {
	before := Point{}
	after := Point{Level: math.Inf(1)}
	i := sort.Search(len(curve), func(i int) bool { return level < curve[i].Level })
	if i > 0 {
		before = curve[i-1]
		after.Use = before.Use
	}
	if i < len(curve) {
		after = curve[i]
	}
	l := line{from: before.Level, to: after.Level}
	for k := range l.use {
		l.slope[k] = (after.Use[k] - before.Use[k]) / (after.Level - before.Level)
		l.use[k] = before.Use[k] + float64(l.slope[k]*(level-before.Level))
	}
	return l
}

// at is a curve's use at a level.
func at(curve []Point, level float64, k int) float64 { return lineAt(curve, level).use[k] }

// looks is at how many levels water looks at most. It takes two or three where curves are as they were
// a beat ago.
const looks = 240

// water is the level at which all that is used comes to what there is, of the axis that
// is exhausted first; negative if all can have what they ask for. It goes along the line at the
// level that there was last, to where that comes to all there is, and from there likewise, until
// it is on the line that it came by. Where that leads nowhere, and at times in any case, it halves
// what is left.
func (a *Account) water(capacity [axes]float64) float64 {
	for k := range capacity {
		if a.limit(k) == 0 {
			capacity[k] = math.Inf(1)
		}
	}
	names := a.names() // floats add up in the same order everywhere
	low := 0.0
	high := a.highest()
	if a.uses(names, high).fits(capacity) {
		return -1
	}
	level := a.Level
	for look := range looks {
		if !(low < level && level < high) || look%4 == 3 {
			level = (low + high) / 2
		}
		if level <= low || level >= high {
			break // there is no number between them
		}
		sum := a.uses(names, level)
		full := sum.full(level, capacity)
		if sum.from <= full && full < sum.to {
			return full
		}
		if sum.fits(capacity) {
			low = level
		} else {
			high = level
		}
		level = full
	}
	return low
}

// highest is a level at which all demand is met.
func (a *Account) highest() float64 {
	h := 0.0
	for _, m := range a.Members {
		if n := len(m.Curve); n > 0 && a.live(m) {
			h = max(h, m.Curve[n-1].Level)
		}
	}
	return h
}

// uses is how the sum of all curves goes near a level.
func (a *Account) uses(names []string, level float64) line {
	sum := line{to: math.Inf(1)}
	for _, name := range names {
		m := a.Members[name]
		if !a.live(m) {
			continue
		}
		l := lineAt(m.Curve, level)
		sum.from = max(sum.from, l.from)
		sum.to = min(sum.to, l.to)
		for k := range sum.use {
			sum.use[k] += l.use[k]
			sum.slope[k] += l.slope[k]
		}
	}
	return sum
}

// fits reports whether the usage is within the capacity.
func (l line) fits(capacity [axes]float64) bool {
	for k, use := range l.use {
		if use > capacity[k] {
			return false
		}
	}
	return true
}

// full is where a line through a level comes to all there is, of the axis that is exhausted
// first. It is infinite if that is nowhere.
func (l line) full(level float64, capacity [axes]float64) float64 {
	full := math.Inf(1)
	for k, slope := range l.slope {
		if slope > 0 {
			full = min(full, level+(capacity[k]-l.use[k])/slope)
		} else if l.use[k] > capacity[k] {
			return math.Inf(-1)
		}
	}
	return full
}
