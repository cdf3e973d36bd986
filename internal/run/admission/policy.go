package admission

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/history"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/identity"
	"github.com/llmgov/llmgov/tenants"
)

// Policy is everything that a call needs to know of the tenants and pools, resolved from one snapshot.
// It is immutable, and each call loads it once.
type Policy struct {
	Snapshot *tenants.Snapshot
	Pools    []*Pool // as the snapshot has them

	identity *identity.Checker // of tokens; nil if there is no identity provider
	// explains is the first snapshot of the same policy: refusals are explained by it, so that they do not keep one for each change of keys.
	explains  *tenants.Snapshot
	metrics   *telemetry.Metrics
	places    []inPool   // by tenant and pool
	estimates []*learner // by tenant
	peers     *peers     // of all tenants, for new ones
}

// inPool is a tenant in a pool. Its account is made when the first call comes, because of many tenants most do not call.
type inPool struct {
	reaches bool
	account atomic.Pointer[telemetry.Account]
}

// learner is what calls of a tenant have taught; nil before the first.
type learner struct{ atomic.Pointer[Estimates] }

// Pool is a pool as calls see it.
type Pool struct {
	*tenants.Pool
	Metrics  *telemetry.Pool
	Failures *history.Minute
	// Overloaded says that an upstream has refused a call for want of capacity, until somebody takes that in.
	Overloaded atomic.Bool

	// inputMax and inputsMax are how long a prompt may be that is no more than a minute of the pool, and of each of its
	// upstreams; 0 is no limit.
	inputMax  int64
	inputsMax []int64
	names     []string // of its upstreams
}

// Listed are the names of the pool's upstreams, as a Request.Via numbers them.
func (p *Pool) Listed() []string { return p.names }

// Estimates convert between bytes, deltas and tokens, as the calls of a tenant have taught.
type Estimates struct {
	Prompts tokens.Estimator // the weight of a body → input tokens
	Deltas  tokens.Estimator // deltas of a stream → output tokens
	Answers tokens.Estimator // answers that nothing bounds → output tokens
	Speeds  tokens.Estimator // the time of a call at its upstream → output tokens
	told    *Estimates       // of calls of which the tenant tells (Ask.Told), which are no peers of others'
}

// peers are from whom a tenant's estimates start.
type peers struct{ prompts, deltas, speeds tokens.Peers }

// newPolicy resolves a snapshot. Whatever calls have taught under the policy before is kept, by the
// names of tenants and pools; before is nil for the first policy.
func newPolicy(snap *tenants.Snapshot, m *telemetry.Metrics, before *Policy) *Policy {
	p := &Policy{Snapshot: snap, explains: snap, metrics: m, peers: &peers{}}
	if before != nil && before.explains.SamePolicy(snap) {
		p.explains = before.explains
	}
	var tokens *identity.Checker
	if before != nil {
		p.peers = before.peers
		tokens = before.identity
	}
	p.identity = identity.New(snap.Config().Identity, tokens)
	pools := snap.Pools()
	for i := range pools {
		p.Pools = append(p.Pools, newPool(&pools[i], m, before))
	}
	learned := before.learned()
	list := snap.Tenants()
	p.estimates = make([]*learner, len(list))
	p.places = make([]inPool, len(list)*len(pools))
	var heard []*Estimates
	for i := range list {
		t := &list[i]
		e := learned[t.Name]
		if e == nil {
			e = &learner{}
		} else {
			heard = append(heard, e.Load())
		}
		p.estimates[i] = e
		for _, j := range snap.PoolsOf(t) {
			p.place(i, j).reaches = true
		}
	}
	p.peers.are(heard)
	return p
}

func newPool(of *tenants.Pool, m *telemetry.Metrics, before *Policy) *Pool {
	p := &Pool{Pool: of, Metrics: m.Pool(of.Name), Failures: &history.Minute{}}
	if old, there := before.PoolNamed(of.Name); there {
		p.Failures = old.Failures
	}
	p.inputMax = longestInput(of, of.TPM, of.ITPM)
	for i := range of.Upstreams {
		p.inputsMax = append(p.inputsMax, longestInput(of, of.Upstreams[i].TPM, of.Upstreams[i].ITPM))
		p.names = append(p.names, of.Upstreams[i].Name)
	}
	return p
}

// longestInput is how long a prompt may be in a pool that is no more than some tokens and input tokens a minute; 0 is no limit.
func longestInput(of *tenants.Pool, tpm, itpm int64) int64 {
	if of.Weights.Input == 0 {
		return 0
	}
	if tpm == 0 || itpm > 0 && itpm < tpm {
		tpm = itpm
	}
	return int64(math.Round(float64(tpm) / of.Weights.Input))
}

// newEstimates makes estimates of which nothing is known.
func newEstimates(p *peers) *Estimates {
	e := &Estimates{}
	e.Prompts.Follow(&p.prompts)
	e.Deltas.Follow(&p.deltas)
	e.Deltas.Evenly()
	e.Speeds.Follow(&p.speeds)
	return e
}

func (p *peers) are(list []*Estimates) {
	var prompts, deltas, speeds []*tokens.Estimator
	for _, e := range list {
		prompts = append(prompts, &e.Prompts)
		deltas = append(deltas, &e.Deltas)
		speeds = append(speeds, &e.Speeds)
	}
	p.prompts.Are(prompts)
	p.deltas.Are(deltas)
	p.speeds.Are(speeds)
}

// learned are the estimates of all tenants that have called, by name.
func (p *Policy) learned() map[string]*learner {
	all := map[string]*learner{}
	if p == nil {
		return all
	}
	for i, t := range p.Snapshot.Tenants() {
		if p.estimates[i].Load() != nil {
			all[t.Name] = p.estimates[i]
		}
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

func (p *Policy) place(tenant, pool int) *inPool { return &p.places[tenant*len(p.Pools)+pool] }

// Reaches reports whether a tenant may use a model of a pool, given the indices of both in the snapshot.
func (p *Policy) Reaches(tenant, pool int) bool { return p.place(tenant, pool).reaches }

// Account is where the calls of a tenant to a pool are counted; nil if it does not reach the pool.
func (p *Policy) Account(tenant, pool int) *telemetry.Account {
	at := p.place(tenant, pool)
	a := at.account.Load()
	if a == nil && at.reaches {
		t := &p.Snapshot.Tenants()[tenant]
		a = p.metrics.Account(t.Name, t.Tier, p.Pools[pool].Name)
		at.account.Store(a)
	}
	return a
}

// Counted is the Account if any call has come; nil if not.
func (p *Policy) Counted(tenant, pool int) *telemetry.Account {
	return p.place(tenant, pool).account.Load()
}

// Estimates are those of a tenant, given its index in the snapshot.
func (p *Policy) Estimates(tenant int) *Estimates {
	at := p.estimates[tenant]
	if e := at.Load(); e != nil {
		return e
	}
	e := newEstimates(p.peers)
	e.told = newEstimates(p.peers)
	if at.CompareAndSwap(nil, e) {
		p.peers.prompts.Join(&e.Prompts)
		p.peers.deltas.Join(&e.Deltas)
		p.peers.speeds.Join(&e.Speeds)
	}
	return at.Load()
}

// TooLong refuses a prompt that by itself exceeds a minute of the pool, or of each of the upstreams to which it may go
// (Request.Via).
func (p *Pool) TooLong(input int64, via uint64) *ask.Refusal {
	switch most := p.mostInput(via); {
	case most == 0 || input <= most:
		return nil
	case most == p.inputMax:
		return tooLong(input, "pool "+p.Name, most)
	default:
		return tooLong(input, "any upstream of pool "+p.Name+" to which it may go", most)
	}
}

func tooLong(input int64, limited string, most int64) *ask.Refusal {
	return &ask.Refusal{
		Status: statusTooLarge, Code: ask.CodeTooLarge,
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
	for _, pool := range p.Pools {
		pools = append(pools, pool.Name)
	}
	m.Retain(pools, p.reach)
}

// reach implements telemetry.Reach.
func (p *Policy) reach(tenant, pool string) bool {
	t, known := p.Snapshot.TenantByName(tenant)
	if !known || pool == "" {
		return known
	}
	in, there := p.PoolNamed(pool)
	return there && p.Reaches(t.Index, in.Index)
}
