package adaptive

import (
	"testing"
	"time"
)

// TestFleet_Resume: a limit of before a restart is in force at once, within the bounds.
func TestFleet_Resume(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{{48, 48}, {3, 4}, {500, 256}} {
		f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
		if f.Resume(start, c.limit); f.Limit() != c.want {
			t.Errorf("a limit of %d is taken over as %d, want %d", c.limit, f.Limit(), c.want)
		}
	}
}

// TestFleet_AllResume: after a restart of all gateways the one that is back first goes on with its limit, and the others take that over.
func TestFleet_AllResume(t *testing.T) {
	w := &gateways{now: start}
	first := w.join()
	first.Resume(w.now, 48)
	w.beat(first)
	second := w.join()
	second.Resume(w.now, 40)
	for range 3 {
		w.beat(first, second)
	}
	if first.Limit() != 48 || second.Limit() != 48 {
		t.Errorf("the limits are %d and %d, want 48", first.Limit(), second.Limit())
	}
}

// TestFleet_ResumeAtAKnee: where the knee is as it was, the limit stays near it from the start; where it has fallen meanwhile,
// the queue that is there from the first calls on is not taken for the normal latency for long.
func TestFleet_ResumeAtAKnee(t *testing.T) {
	for _, c := range []struct {
		knee   int
		within float64 // lengths of a call
	}{{32, 0}, {24, 20}, {16, 30}} {
		s := chat(400)
		f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
		f.Resume(start, 32)
		w := newWorld(1, f.limiter, c.knee, 1.5*float64(c.knee)/s.mean().Seconds(), s)
		w.run(time.Duration(c.within * float64(s.mean()))).reset()
		w.run(30 * s.mean())
		if w.near(c.knee) < 0.9 {
			t.Errorf("at a knee of %d a limit that was 32 is %.1f (%d…%d), and near for %.0f %% of the time", c.knee, w.meanLimit(), w.least, w.most, 100*w.near(c.knee))
		}
	}
}
