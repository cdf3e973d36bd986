package adaptive

import (
	"testing"
	"time"
)

// TestProbing: how a limit is tried costs callers little. One token in twenty comes at most half as much
// later than at a limit that is the knee, and nearly as much is done.
func TestProbing(t *testing.T) {
	const knee = 48
	s := chat(160)
	best := flooded(Fixed, knee, s)
	best.run(8 * time.Minute).reset()
	best.run(30 * time.Minute)
	w := flooded(Gradient, knee, s)
	w.run(8 * time.Minute).reset()
	w.run(30 * time.Minute)
	t.Logf("limit %.1f, %.2f a second of %.2f, first token p95 %.2f s of %.2f", w.meanLimit(), w.goodput(), best.goodput(), w.firstToken(.95).Seconds(), best.firstToken(.95).Seconds())
	if w.goodput() < 0.97*best.goodput() || w.firstToken(.95) > best.firstToken(.95)*3/2 {
		t.Errorf("%.2f calls a second are done, and one first token in twenty comes after %v; at the knee %.2f, and %v", w.goodput(), w.firstToken(.95), best.goodput(), best.firstToken(.95))
	}
}

// TestFollowsTheKnee_Drained: the knee falls just as the limit is drained to see the upstream at rest. The queue
// of that moment is not taken for rest.
func TestFollowsTheKnee_Drained(t *testing.T) {
	s := chat(400)
	for seed := range uint64(6) {
		w := newWorld(seed, limiterOf(Gradient), 32, 1.5*32/s.mean().Seconds(), s)
		w.run(8 * time.Minute)
		for !w.limiter.draining {
			w.run(time.Second)
		}
		w.slots = 16
		w.run(10 * s.mean()).reset()
		w.run(10 * s.mean())
		if w.near(16) < 0.9 {
			t.Errorf("seed %d: ten lengths of a call after the knee fell to 16 the limit is %.1f (%d…%d)", seed, w.meanLimit(), w.least, w.most)
		}
	}
}
