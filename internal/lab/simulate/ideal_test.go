package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// ideal is a scheduler that knows what the fluid oracle will give everybody, and whose callers are always
// there. Like a real one it hands out the limit at a steady rate, in whole calls, and serves each tenant
// in order. Whoever is furthest behind the oracle is next.
type ideal struct {
	*plan
	owed   []float64
	queues [][]whole
	rng    *rand.Rand
}

// whole is a call that is served at once or not at all.
type whole struct {
	tokens  float64
	expires time.Duration // 0 for never
}

// TestIdeal_WholeCalls: part of what a small pool misallocates is the size of its calls.
func TestIdeal_WholeCalls(t *testing.T) {
	for _, c := range []struct {
		name        string
		least, most Value // of the ideal
	}{
		{"monday-3m", 0, 0.0015},
		{"monday", 0.005, 0.009},
		{"monday-60k", 0.03, 0.045},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != "monday" {
				testkit.Long(t, "plays ten minutes of a large pool")
			}
			s := testkit.Must(scenario.Find(c.name))(t)
			p := newPlan(&s, 1)
			w := newWorld(p, alone)
			testkit.OK(t, w.run(t.Context(), 0, func(time.Duration) {}))
			got := p.ideal(w.trace.Requests, 1)
			tenth := p.ideal(w.trace.Requests, 10)
			t.Logf("misallocated: %.4f, with calls of a tenth of the size %.4f", got, tenth)
			if got < c.least || got > c.most {
				t.Errorf("the ideal misallocates %.4f, want %.4f to %.4f", got, c.least, c.most)
			}
			if tenth > got*2/3 {
				t.Errorf("with calls of a tenth of the size the ideal misallocates %.4f, and %.4f with all of it", tenth, got)
			}
		})
	}
}

// ideal is what the ideal scheduler misallocates if each call comes in so many pieces.
func (p *plan) ideal(requests []Request, pieces int) Value {
	n := len(p.tree.Leaves)
	m := measures(&p.Pool)
	entitled := p.windows()
	p.fluid(requests, m, []*grid{entitled})
	steps := newGrid(0, fluidStep, p.Duration, n)
	p.fluid(requests, m, []*grid{steps})
	d := &ideal{plan: p, owed: make([]float64, n), queues: make([][]whole, n), rng: rand.New(rand.NewPCG(p.seed, 0))}
	for i, phases := range p.phases {
		for _, ph := range phases {
			for range ph.Workers * pieces {
				d.queues[i] = append(d.queues[i], d.next(i, pieces))
			}
		}
	}
	received := p.windows()
	budget := 0.0
	for k, given := range steps.cells {
		now := time.Duration(k) * fluidStep
		for ; len(requests) > 0 && requests[0].At < now+fluidStep; requests = requests[1:] {
			r := &requests[0]
			for range pieces {
				if !r.Worker {
					d.queues[r.Tenant] = append(d.queues[r.Tenant], whole{float64(r.Tokens) / float64(pieces), r.At + p.Patience})
				}
			}
		}
		for i, x := range given {
			d.owed[i] += x
		}
		budget += m[0].perSecond() * fluidStep.Seconds()
		for budget > 0 {
			i := d.furthestBehind(now)
			if i < 0 {
				budget = 0
				break
			}
			c := d.queues[i][0]
			d.queues[i] = d.queues[i][1:]
			if c.expires == 0 {
				d.queues[i] = append(d.queues[i], d.next(i, pieces))
			}
			d.owed[i] -= c.tokens
			budget -= c.tokens
			received.add(now, i, c.tokens)
		}
	}
	misallocated := 0.0
	for k, row := range received.cells {
		misallocated += distance1(row, entitled.cells[k]) / float64(len(received.cells))
	}
	return Value(misallocated)
}

// next is another call of a leaf's workers.
func (d *ideal) next(leaf, pieces int) whole {
	s := drawSample(&d.tree.Leaves[leaf].Work, d.rng, 1)
	return whole{tokens: float64(s.input+s.output) / float64(pieces)}
}

// furthestBehind is the leaf that is furthest behind the oracle if half of its next call is served; -1
// if nobody asks.
func (d *ideal) furthestBehind(now time.Duration) int {
	best := -1
	most := 0.0
	for i := range d.queues {
		for len(d.queues[i]) > 0 && d.queues[i][0].expires > 0 && d.queues[i][0].expires < now {
			d.queues[i] = d.queues[i][1:]
		}
		if len(d.queues[i]) == 0 {
			continue
		}
		if behind := d.owed[i] - d.queues[i][0].tokens/2; best < 0 || behind > most {
			best = i
			most = behind
		}
	}
	return best
}
