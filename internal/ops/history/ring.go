package history

import "time"

const (
	// Step is the distance of two points.
	Step = 10 * time.Second
	// Points is the number of points that are kept.
	Points = int64(time.Hour / Step)
)

// tickOf numbers the steps since 1970.
func tickOf(now time.Time) int64 { return now.Unix() / int64(Step/time.Second) }

// ring keeps the last Points values, by their tick. A tick that was never set has the zero value.
type ring[T any] struct {
	last  int64
	slots [Points]T
}

// set sets the value of a tick, which must be later than all before.
func (r *ring[T]) set(tick int64, v T) {
	var zero T
	for skipped := max(r.last+1, tick-Points+1); skipped < tick; skipped++ {
		r.slots[skipped%Points] = zero
	}
	r.slots[tick%Points] = v
	r.last = tick
}

// at is the value of a tick.
func (r *ring[T]) at(tick int64) (v T) {
	if tick > r.last || tick <= r.last-Points {
		return v
	}
	return r.slots[tick%Points]
}
