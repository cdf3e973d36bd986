package simulate

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// governed is the admission of a process by the production governor.
type governed struct {
	*governor.Governor
	w     *world
	clock *clock
}

// poolName is that of the pool of every scenario.
const poolName = "pool"

// alone is the admission of a process that has a pool to itself.
func alone(w *world) gate { return w.govern("") }

// govern begins a governor for a process of a name, which is empty if it shares the pool with no other.
func (w *world) govern(instance string) *governed {
	g := &governed{w: w, clock: &clock{world: w}}
	cfg := policyOf(w.Scenario)
	cfg.Clock = g.clock
	cfg.Instance = instance
	var err error
	if g.Governor, err = governor.New(cfg); err != nil {
		panic("llmgov: BUG: the policy was valid, and is not: " + err.Error())
	}
	return g
}

// policyOf is the policy by which the pool of a scenario is shared.
func policyOf(s *scenario.Scenario) governor.Config {
	pool := s.Pool.Pool
	pool.Name = poolName
	shared := len(s.Nodes) > 0
	cfg := governor.Config{Pools: []governor.Pool{pool}, Shared: shared, SharedSlots: shared}
	longest := time.Duration(0)
	if s.Refuse == scenario.Wait {
		longest = workerWait
	}
	addTenants(&cfg.Tenants, s.Tenants, "", longest)
	return cfg
}

// addTenants adds those of a scenario to a policy's.
func addTenants(to *[]governor.Tenant, from []scenario.Tenant, above string, longest time.Duration) {
	for i := range from {
		x := &from[i]
		name := above + x.Name
		*to = append(*to, governor.Tenant{
			Name: name, Weight: x.Weight, Floor: x.FloorTPM, Credit: x.Credit, Background: x.Background, Below: x.Below,
			MaxWait: longest, NoCalls: len(x.Teams) > 0,
		})
		addTenants(to, x.Teams, name+"/", longest)
	}
}

func (g *governed) ask(c *call) {
	w := g.w
	leaf := &w.tree.Leaves[c.leaf]
	req := governor.Request{
		Tenant: leaf.Path, Pool: poolName, Model: w.models[c.class+1],
		Input: c.input, Output: w.most(c) - c.input,
		Stream: c.class >= 0, Claim: w.claim(c), Via: uint64(leaf.Via), Conversation: w.conversation(c),
	}
	if w.Refuse == scenario.Wait {
		wait := w.maxWait(c)
		req.MaxWait = &wait
	}
	c.leave = g.Ask(req, func(l governor.Lease, rej *governor.Refusal) {
		c.lease = l
		w.decide(c, rej)
	})
}

func (g *governed) end(c *call, taken int64, whole bool) {
	input := min(taken, c.input)
	end := c.lease.Break
	if whole {
		end = c.lease.Settle
	}
	if !end(governor.Usage{Input: input, Output: taken - input}) {
		panic("llmgov: BUG: the governor does not know a call that runs")
	}
}

// modelsOf are names of the classes of all works, from class -1 on.
func modelsOf(t *Tree) (names []string) {
	for _, l := range t.Leaves {
		for len(names) <= len(l.Work.Classes) {
			names = append(names, fmt.Sprintf("model-%d", len(names)))
		}
	}
	return names
}
