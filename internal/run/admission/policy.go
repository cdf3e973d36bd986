package admission

import (
	"fmt"
	"slices"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/history"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// Policy is everything that a call needs to know of the tenants and pools, resolved from one snapshot.
// It is immutable, and each call loads it once.
type Policy struct {
	Snapshot *tenants.Snapshot
	Pools    []*Pool // as the snapshot has them

	// explains is the first snapshot of the same hash: refusals are explained by it, so that they do not keep one for each change of keys.
	explains  *tenants.Snapshot
	accounts  [][]*telemetry.Account // by tenant and pool; nil if the tenant may not use the pool
	estimates []*Estimates           // by tenant
	peers     *peers                 // of all tenants, for new ones
}

// Pool is a pool as calls see it.
type Pool struct {
	*tenants.Pool
	Metrics  *telemetry.Pool
	Failures *history.Minute

	// inputMax and inputsMax are how long a prompt may be that is no more than a minute of the pool, and of each of its
	// upstreams; 0 is no limit.
	inputMax  int64
	inputsMax []int64
	names     []string // of its upstreams
	speed     *speed
}

// Listed are the names of the pool's upstreams, as a Request.Via numbers them.
func (p *Pool) Listed() []string { return p.names }

// Estimates convert between bytes, deltas and tokens, as the calls of a tenant have taught.
type Estimates struct {
	Prompts tokens.Estimator // the weight of a body → input tokens
	Deltas  tokens.Estimator // deltas of a stream → output tokens
	Answers tokens.Estimator // answers that nothing bounds → output tokens
	told    *Estimates       // of calls of which the tenant tells (Ask.Told), which are no peers of others'
}

// peers are from whom a tenant's estimates start.
type peers struct{ prompts, deltas tokens.Peers }

// newPolicy resolves a snapshot. Whatever calls have taught under the policy before is kept, by the
// names of tenants and pools; before is nil for the first policy.
func newPolicy(snap *tenants.Snapshot, m *telemetry.Metrics, before *Policy) *Policy {
	p := &Policy{Snapshot: snap, explains: snap, peers: &peers{}}
	if before != nil && before.explains.Hash() == snap.Hash() {
		p.explains = before.explains
	}
	if before != nil {
		p.peers = before.peers
	}
	pools := snap.Pools()
	for i := range pools {
		p.Pools = append(p.Pools, newPool(&pools[i], m, before))
	}
	learned := before.learned()
	list := snap.Tenants()
	for i := range list {
		t := &list[i]
		e := learned[t.Name]
		if e == nil {
			e = newEstimates(p.peers)
			e.told = newEstimates(p.peers)
		}
		p.estimates = append(p.estimates, e)
		row := make([]*telemetry.Account, len(pools))
		for _, j := range snap.PoolsOf(t) {
			row[j] = m.Account(t.Name, t.Tier, pools[j].Name)
		}
		p.accounts = append(p.accounts, row)
	}
	p.peers.are(p.estimates)
	return p
}

func newPool(of *tenants.Pool, m *telemetry.Metrics, before *Policy) *Pool {
	p := &Pool{Pool: of, Metrics: m.Pool(of.Name), Failures: &history.Minute{}, speed: &speed{}}
	if old, there := before.PoolNamed(of.Name); there {
		p.Failures = old.Failures
		p.speed = old.speed
	}
	p.inputMax = longestInput(of, of.TPM)
	for i := range of.Upstreams {
		p.inputsMax = append(p.inputsMax, longestInput(of, of.Upstreams[i].TPM))
		p.names = append(p.names, of.Upstreams[i].Name)
	}
	return p
}

// longestInput is how long a prompt may be in a pool that is no more than some tokens a minute; 0 is no limit.
func longestInput(of *tenants.Pool, tpm int64) int64 {
	if of.TokenWeights.Input == 0 {
		return 0
	}
	return tpm * 1000 / of.TokenWeights.Input
}

// newEstimates makes the estimates of a tenant of whom nothing is known.
func newEstimates(p *peers) *Estimates {
	e := &Estimates{}
	e.Prompts.Follow(&p.prompts)
	e.Deltas.Follow(&p.deltas)
	e.Deltas.Evenly()
	return e
}

func (p *peers) are(list []*Estimates) {
	var prompts, deltas []*tokens.Estimator
	for _, e := range list {
		prompts = append(prompts, &e.Prompts)
		deltas = append(deltas, &e.Deltas)
	}
	p.prompts.Are(prompts)
	p.deltas.Are(deltas)
}

// learned are the estimates of all tenants, by name.
func (p *Policy) learned() map[string]*Estimates {
	if p == nil {
		return nil
	}
	all := map[string]*Estimates{}
	for i, t := range p.Snapshot.Tenants() {
		all[t.Name] = p.estimates[i]
	}
	return all
}

// PoolNamed finds a pool by its name. A nil Policy has no pools.
func (p *Policy) PoolNamed(name string) (*Pool, bool) {
	if p == nil {
		return nil, false
	}
	i := slices.IndexFunc(p.Pools, func(pool *Pool) bool { return pool.Name == name })
	if i < 0 {
		return nil, false
	}
	return p.Pools[i], true
}

// Account is where the calls of a tenant to a pool are counted, given the indices of both in the
// snapshot; nil if the tenant may use no model of the pool.
func (p *Policy) Account(tenant, pool int) *telemetry.Account { return p.accounts[tenant][pool] }

// Estimates are those of a tenant, given its index in the snapshot.
func (p *Policy) Estimates(tenant int) *Estimates { return p.estimates[tenant] }

// TooLong refuses a prompt that by itself exceeds a minute of the pool, or of each of the upstreams to which it may go
// (Request.Via).
func (p *Pool) TooLong(input int64, via uint64) *Refusal {
	switch most := p.mostInput(via); {
	case most == 0 || input <= most:
		return nil
	case most == p.inputMax:
		return tooLong(input, "pool "+p.Name, most)
	default:
		return tooLong(input, "any upstream of pool "+p.Name+" to which it may go", most)
	}
}

func tooLong(input int64, limited string, most int64) *Refusal {
	return &Refusal{
		Status: statusTooLarge, Code: CodeTooLarge,
		Message: fmt.Sprintf("The prompt has at least %d tokens, more than %s has in a minute (%d).", input, limited, most),
	}
}

// mostInput is how long a prompt may be that goes to some upstreams; 0 is no limit.
func (p *Pool) mostInput(via uint64) int64 {
	largest := int64(0)
	for i, most := range p.inputsMax {
		if via != 0 && via&(1<<i) == 0 {
			continue
		}
		if most == 0 {
			return p.inputMax
		}
		largest = max(largest, most)
	}
	if p.inputMax > 0 {
		return min(largest, p.inputMax)
	}
	return largest
}

// retain drops the metrics of tenants and pools that the policy does not have.
func (p *Policy) retain(m *telemetry.Metrics) {
	pools := []string{}
	reaches := map[string][]string{}
	for _, pool := range p.Pools {
		pools = append(pools, pool.Name)
	}
	for i, t := range p.Snapshot.Tenants() {
		reaches[t.Name] = nil
		for j, account := range p.accounts[i] {
			if account != nil {
				reaches[t.Name] = append(reaches[t.Name], pools[j])
			}
		}
	}
	m.Retain(pools, reaches)
}
