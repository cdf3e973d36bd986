package admission

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// Controller admits calls under the policy in force. It is safe for concurrent use.
type Controller struct {
	gov     *governor.Governor
	metrics *telemetry.Metrics
	node    string
	zone    *time.Location
	policy  atomic.Pointer[Policy]
	used    lastUses
	prompts PromptCounter // may be nil
	ongoing ongoing
	refused *past
	// tokenRefused is as in Options, and never nil.
	tokenRefused func(error)
	leaves       atomic.Bool

	// applying is held while a policy is taken over. Meanwhile the governor knows the new policy,
	// but policy is still the old one.
	applying  sync.Mutex
	followers []Follower // guarded by applying
	// overrides are laid over each policy; guarded by applying
	overrides []tenants.Override
	// explained are the policies of which refusals are kept, the oldest first; guarded by applying
	explained []*tenants.Snapshot
}

// Follower prepares whatever depends on the policy for the next one, or says why that is impossible.
// The function that it returns is called when the governor knows the next policy, just before calls
// begin with it.
type Follower func(next *Policy) (install func(), err error)

// Options are the parts of a Controller.
type Options struct {
	Snapshot *tenants.Snapshot
	Governor *governor.Governor
	Metrics  *telemetry.Metrics
	// Node is the name of this process; "" is none.
	Node string
	// TokenRefused is told why a token of an identity provider does not count, which callers are not; nil is not.
	TokenRefused func(error)
	// Prompts counts prompts while estimates are uncertain; nil does not.
	Prompts PromptCounter
}

// New returns a Controller.
func New(opt Options) *Controller {
	c := &Controller{
		gov: opt.Governor, metrics: opt.Metrics, node: opt.Node, zone: opt.Snapshot.Location(), prompts: opt.Prompts,
		refused: newPast(), tokenRefused: opt.TokenRefused,
	}
	if c.tokenRefused == nil {
		c.tokenRefused = func(error) {}
	}
	p := newPolicy(opt.Snapshot, opt.Metrics, nil)
	c.boundMetrics(opt.Snapshot)
	c.used.follow(opt.Snapshot)
	c.policy.Store(p)
	c.explainLocked(p) // nobody else knows of c yet
	p.retain(c.metrics)
	return c
}

// Follow has f prepare for the policy in force, at once, and for each further one. If f cannot prepare
// for the policy in force, it does not follow.
func (c *Controller) Follow(f Follower) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	install, err := f(c.Policy())
	if err != nil {
		return err
	}
	install()
	c.followers = append(c.followers, f)
	return nil
}

// Governor is the governor that enforces the policy.
func (c *Controller) Governor() *governor.Governor { return c.gov }

// Leave notes that the process is about to stop. Calls are admitted as before, until the governor drains.
func (c *Controller) Leave() { c.leaves.Store(true) }

// Leaving reports whether the process is about to stop, so that calls should be sent to another one.
func (c *Controller) Leaving() bool { return c.leaves.Load() || c.gov.Draining() }

// Metrics are the metrics in which calls are counted.
func (c *Controller) Metrics() *telemetry.Metrics { return c.metrics }

// Node is the name of this process, which refusals show; "" is none.
func (c *Controller) Node() string { return c.node }

// Policy is the policy in force.
func (c *Controller) Policy() *Policy { return c.policy.Load() }

// MarkUsed notes that a key is used.
func (c *Controller) MarkUsed(key tenants.KeyHash, now time.Time) { c.used.mark(key, now) }

// LastUsed returns when a key was last used by this process; ok is false if it was not.
func (c *Controller) LastUsed(key tenants.KeyHash) (at time.Time, ok bool) { return c.used.last(key) }

// Apply puts another policy in force as a whole, or changes nothing and says why. Calls in flight
// keep the policy that they began with. Everything that was learned is kept, and so are all counters of
// tenants and pools that are still there. The time zone in which budgets begin stays that of the first
// policy.
//
// The governor comes first, so that a call that finds the new policy finds its tenants and pools in
// the governor, too. A call under the old policy that the governor does not know any more begins
// again: see Stale.
func (c *Controller) Apply(snap *tenants.Snapshot) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	return c.applyLocked(snap)
}

// Rekey puts the present content of a key file in force, with the policy that is in force now. Both
// are read under the lock, so that neither is older than a change made by others.
func (c *Controller) Rekey(file *keyfile.File) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	keys, err := file.List()
	if err != nil {
		return err
	}
	before := c.Policy().Snapshot
	if snap := before.WithKeys(keys); !snap.Equal(before) {
		return c.applyLocked(snap)
	}
	return nil
}

// Override has these overrides in force, and no others, under this policy and those that follow, or changes nothing and says why.
func (c *Controller) Override(list []tenants.Override) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	before := c.overrides
	c.overrides = list
	err := c.applyLocked(c.Policy().Snapshot)
	if err != nil {
		c.overrides = before
	}
	return err
}

func (c *Controller) applyLocked(snap *tenants.Snapshot) error {
	snap = snap.WithOverrides(c.overrides)
	before := c.Policy()
	next := newPolicy(snap, c.metrics, before)
	installs, err := c.prepareLocked(next)
	if err == nil {
		rules := policy.Governor(snap)
		rules.Zone = c.zone
		err = c.gov.Apply(rules)
	}
	if err != nil {
		before.retain(c.metrics)
		return err
	}
	c.used.follow(snap)
	c.metrics.Expect(next.reach) // before the followers let calls begin with it
	for _, install := range installs {
		install()
	}
	c.policy.Store(next)
	c.explainLocked(next)
	c.boundMetrics(snap)
	next.retain(c.metrics)
	c.metrics.PolicyInForce(snap.Hash(), time.Now())
	return nil
}

func (c *Controller) boundMetrics(snap *tenants.Snapshot) {
	cfg := &snap.Config().Metrics
	c.metrics.Bound(int(cfg.Tenants), cfg.Idle)
}

// prepareLocked has all followers prepare for the next policy.
func (c *Controller) prepareLocked(next *Policy) (installs []func(), err error) {
	for _, f := range c.followers {
		install, err := f(next)
		if err != nil {
			return nil, err
		}
		installs = append(installs, install)
	}
	return installs, nil
}

// Steady calls f while no policy is being taken over, so that the governor knows the policy in force.
func (c *Controller) Steady(f func()) {
	c.applying.Lock()
	defer c.applying.Unlock()
	f()
}

// remember keeps a refusal for whoever asks about it later. It keeps nothing of the call itself, which has
// its body.
func (c *Controller) remember(p *PastRefusal) {
	p.Request = p.Request.Record()
	c.refused.Keep(p.Tenant, p.ID, p)
}

// PastRefusals are the last refusals of calls with an id. Ids are callers' to choose, so several
// tenants may have used one.
func (c *Controller) PastRefusals(id string) []*PastRefusal { return c.refused.Find(id) }
