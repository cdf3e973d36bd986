package adaptive

import (
	"testing"
	"time"
)

// settled is a limiter that knows that calls take a second to their first token, and four in all.
func settled(limit float64) (*Limiter, time.Time) {
	l := New(Config{Law: Gradient, Min: 4, Max: 256})
	now := start
	for range 10 * memory {
		now = now.Add(100 * time.Millisecond)
		l.Ended(4 * time.Second)
		l.Observe(now, calls(now, 4, time.Second))
	}
	l.settle()
	l.set(limit)
	l.turn(now, true)
	return l, now.Add(time.Minute)
}

func calls(now time.Time, running int64, latency time.Duration) Sample {
	return Sample{Kind: Kind{"m", true, 10}, Began: now.Add(-latency), Running: running, Latency: latency, Full: true}
}

// TestRound_EndsAtHalf: where too many wait plainly, half a round is enough to lower the limit; otherwise it takes all of it.
func TestRound_EndsAtHalf(t *testing.T) {
	for _, c := range []struct {
		name    string
		latency func(i int) time.Duration
		after   int // calls
	}{
		{"all wait for 200 ms", func(int) time.Duration { return 1200 * time.Millisecond }, 12},
		{"some wait for a second", func(i int) time.Duration { return time.Second + time.Duration(i%4/3)*time.Second }, 24},
	} {
		l, now := settled(48)
		n := 0
		for ; l.Limit() == 48 && n < 100; n++ {
			now = now.Add(100 * time.Millisecond)
			l.Observe(now, calls(now, 48, c.latency(n)))
		}
		if n != c.after {
			t.Errorf("%s: the limit is %d after %d calls, want less than 48 after %d", c.name, l.Limit(), n, c.after)
		}
	}
}

// TestFall_QueueStays: calls that waited before the limit fell make those after it wait as long, which is no slower server yet.
func TestFall_QueueStays(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds []seen
		vain   bool
	}{
		{"one round later", []seen{{48, 2}, {24, 2}}, false},
		{"and another", []seen{{48, 2}, {24, 2}, {14, 2}}, true},
		{"the queue is gone by then", []seen{{48, 2}, {24, 2}, {14, 0.2}}, false},
		{"most wait in the second round", []seen{{48, 1}, {24, 2}, {13, 2}}, false},
	} {
		var f fall
		vain := false
		for _, s := range c.rounds {
			vain = f.inVain(s, false)
		}
		if vain != c.vain {
			t.Errorf("%s: that it fell in vain is %v", c.name, vain)
		}
	}
}
