package escrow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lib/maxmin"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// claim is a node of a random tree, for the fluid oracle.
type claim struct {
	weight   float64
	demand   float64 // of a leaf: tokens a second; of others the sum
	children []*claim
	src      *source
}

func (c *claim) sum() float64 {
	for _, k := range c.children {
		c.demand += k.sum()
	}
	return c.demand
}

// pour shares out a rate by weighted max-min, level by level.
func (c *claim) pour(rate float64, give func(*source, float64)) {
	if c.src != nil {
		give(c.src, rate)
		return
	}
	list := make([]maxmin.Claim, len(c.children))
	for i, k := range c.children {
		list[i] = maxmin.Claim{ID: i, Weight: k.weight, Demand: k.demand}
	}
	maxmin.Divide(rate, list)
	for _, x := range list {
		c.children[x.ID].pour(x.Share, give)
	}
}

// 300 random trees of three levels, some leaves idle, some with less demand than
// their share, some backlogged: each gets what the fluid server gives, give or take
// one call a level.
//
// Catches: no charge above the leaf; tags moved by cost instead of cost/weight; virtual time
// that moves at the root only.
func TestI6_TreesAgainstTheFluidServer(t *testing.T) {
	const (
		limit = 600_000
		most  = 1000 // the largest call
		long  = 60 * time.Second
	)
	worst := 0.0
	for seed := range uint64(testkit.Rounds(12, 300)) {
		w := newSim(t, seed, Config{TPM: limit})
		w.dt = 20 * time.Millisecond
		r := w.rng
		var grow func(parent NodeID, depth int) *claim
		grow = func(parent NodeID, depth int) *claim {
			n := Node{Weight: Weight(1 + r.IntN(8))}
			c := &claim{weight: float64(n.Weight)}
			if depth == 3 || depth > 1 && r.IntN(4) == 0 {
				c.src = w.leaf(parent, n, 1+r.Int64N(most))
				switch r.IntN(3) {
				case 0:
				case 1:
					c.demand = r.Float64() * limit / 60 / 4
					c.src.rate = c.demand / float64(c.src.cost)
				default:
					c.demand = math.Inf(1)
					c.src.keep = 2 + most/int(c.src.cost)
				}
				return c
			}
			id := w.p.Add(parent, n)
			for range 2 + r.IntN(3) {
				c.children = append(c.children, grow(id, depth+1))
			}
			return c
		}
		root := &claim{}
		for range 2 + r.IntN(3) {
			root.children = append(root.children, grow(Root, 1))
		}
		root.sum()
		if !math.IsInf(root.demand, 1) {
			continue // nobody is backlogged, nobody waits
		}
		w.run(10 * time.Second)
		w.reset()
		w.run(long)
		total := 0.0
		for _, s := range w.sources {
			total += float64(s.got)
		}
		root.pour(total/long.Seconds(), func(s *source, rate float64) {
			want := rate * long.Seconds()
			off := math.Abs(float64(s.got)-want) / most
			worst = max(worst, off)
			if off > 3 {
				t.Errorf("I6: seed %d: leaf %d got %d tokens, %.0f from the fluid server", seed, s.leaf, s.got, want)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("I6: at worst %.2f of the largest call off", worst)
}

// counts is how a provider counts under AdmitMax, and what is true under Settled:
// every call and refund, at its instant, for one minute.
type counts struct {
	at     []time.Time
	amount []int64
	from   int
}

func (c *counts) add(now time.Time, x int64) int {
	c.at = append(c.at, now)
	c.amount = append(c.amount, x)
	return len(c.at) - 1
}

func (c *counts) sum(now time.Time) (sum int64) {
	for c.from < len(c.at) && now.Sub(c.at[c.from]) >= Window {
		c.from++
	}
	for _, x := range c.amount[c.from:] {
		sum += x
	}
	return sum
}

// Random trees under random load that stops and starts, with tickets, cancels,
// refunds, floors and bursts: at every instant the provider's own count, of tokens
// and of requests, is at most the limit.
//
// Catches: a window of n slots instead of n+1; a refund in a slot that has left; a hold that is
// not dropped; places that end late.
func TestI1_RollingLimitOfTrees(t *testing.T) {
	for seed := range uint64(testkit.Rounds(6, 24)) {
		r := rand.New(rand.NewPCG(seed, 11))
		cfg := Config{
			TPM: []int64{6000, 60_000, 6_000_000}[seed%3], RPM: []int64{0, 300}[r.IntN(2)], Slots: []int64{0, 20}[r.IntN(2)],
			Burst: time.Duration(r.IntN(61)) * time.Second, Accounting: []Accounting{AdmitMax, Settled}[seed/3%2],
			MaxQueue: 50, TicketWait: 10 * time.Second,
		}
		p := New(t0, cfg)
		var leaves []NodeID
		at := Root
		for range 6 {
			if r.IntN(2) == 0 {
				at = p.Add(at, Node{Weight: Weight(1+r.IntN(5000)) / 1000})
			}
			leaves = append(leaves, p.Add(at, Node{Weight: Weight(1+r.IntN(5000)) / 1000, Floor: r.Int64N(cfg.TPM / 20)}))
		}
		type run struct {
			h      Handle
			c, now int64
			req    int
			ends   time.Time
		}
		var tokens, requests counts
		var running []run
		waiting := map[Handle]int64{}
		now := t0
		holds := int64(0)
		begin := func(h Handle, c int64) {
			x := run{h: h, c: c, req: requests.add(now, 1), ends: now.Add(time.Duration(r.ExpFloat64() * float64(10*time.Second)))}
			if cfg.Accounting == AdmitMax {
				x.now = int64(tokens.add(now, c))
			}
			holds += c
			running = append(running, x)
		}
		look := func() {
			sum := tokens.sum(now)
			if cfg.Accounting == Settled {
				sum += holds
			}
			if sum > cfg.TPM {
				t.Fatalf("I1: seed %d: after %v the provider counts %d of %d tokens", seed, now.Sub(t0), sum, cfg.TPM)
			}
			if n := requests.sum(now); cfg.RPM > 0 && n > cfg.RPM {
				t.Fatalf("I1: seed %d: after %v the provider counts %d of %d requests", seed, now.Sub(t0), n, cfg.RPM)
			}
		}
		busy := 0.0
		for range testkit.Rounds(5_000, 12_000) {
			now = now.Add(time.Duration(r.ExpFloat64() * float64(20*time.Millisecond)))
			if r.IntN(300) == 0 {
				busy = []float64{0, 0, .1, 3}[r.IntN(4)]
				if r.IntN(4) == 0 {
					now = now.Add(time.Duration(r.IntN(200)) * time.Second)
				}
			}
			still := running[:0]
			for _, x := range running {
				if now.Before(x.ends) {
					still = append(still, x)
					continue
				}
				took := r.Int64N(x.c + 1)
				holds -= x.c
				if cfg.Accounting == AdmitMax {
					tokens.amount[x.now] = took
				} else {
					tokens.add(now, took)
				}
				p.Settle(now, x.h, Cost{took, 1})
			}
			running = still
			for h := range waiting {
				if r.IntN(400) == 0 {
					if r.IntN(2) == 0 {
						p.Refuse(now, h, r.Uint64N(4))
					} else {
						p.Cancel(now, h)
					}
					delete(waiting, h)
				}
			}
			for range poisson(r, busy) {
				c := 1 + r.Int64N(cfg.TPM/20)
				h, ans := p.Offer(now, Call{
					Leaf: leaves[r.IntN(len(leaves))], Most: Cost{c, 1}, Expect: []int64{0, c}[seed%2], Background: r.IntN(4) == 0,
					MaxWait: []time.Duration{0, time.Second, time.Hour}[r.IntN(3)], Claim: Claim{Key: r.Uint64N(4), Retry: Retry(r.IntN(3))},
				})
				switch ans.Verdict {
				case Admitted:
					begin(h, c)
				case Queued:
					waiting[h] = c
				}
			}
			for _, h := range p.Pump(now, nil) {
				begin(h, waiting[h])
				delete(waiting, h)
			}
			look()
		}
		testkit.OK(t, p.Check())
	}
}
