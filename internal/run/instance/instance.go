package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/durable"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/tenants"
)

// Instance is a governor and everything around it that its config names.
type Instance struct {
	Node      string
	Metrics   *telemetry.Metrics
	Governor  *governor.Governor
	Events    *events.Ring
	Admission *admission.Controller

	log     *slog.Logger
	journal *durable.Journal // nil without a state_dir
	shared  *sharing         // nil without a shared store
	spend   *spending
	told    told
	// recalled is what an earlier process had learned of upstreams' limits, and learned what this one has.
	recalled json.RawMessage
	learned  func() any // nil if nobody learns that
	engines  *Engines
	over     *overrides
	seen     func(nodes []string) // receives the gateways that share limits; nil without a decision_log
	closers  []func() error       // in the order of opening
}

// Options are the parts of an Instance that its maker brings along.
type Options struct {
	Snapshot *tenants.Snapshot
	Log      *slog.Logger
	// Fresh says that no other process has used the pools in the last minute: see governor.Config.
	Fresh bool
	// Prompts counts prompts while estimates are uncertain; nil does not.
	Prompts admission.PromptCounter
}

// keptEvents is the number of events that a reader of /api/v1/events may fall behind.
const keptEvents = 4096

// Open opens the parts that a policy needs.
func Open(opt Options) (*Instance, error) {
	in := &Instance{log: opt.Log, Metrics: telemetry.New(), Events: events.NewRing(keptEvents)}
	for _, caution := range opt.Snapshot.Cautions() {
		in.log.Warn(caution)
	}
	if err := in.build(opt); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func (in *Instance) build(opt Options) (err error) {
	snap := opt.Snapshot
	cfg := snap.Config()
	in.Node = cfg.Node
	if in.Node == "" {
		in.Node = defaultNode()
	}
	rules := policy.Governor(snap)
	rules.Fresh = opt.Fresh
	rules.Shared = cfg.Store != notShared
	rules.SharedLimits = rules.Shared
	rules.SharedSlots = rules.Shared
	in.journal, err = openState(cfg.StateDir, &rules, in.Metrics, in.log)
	if err != nil {
		return err
	}
	rules.Observer = in.Events
	if err := in.record(&cfg.DecisionLog, in.Events, &rules); err != nil {
		return err
	}
	in.Governor, err = governor.New(rules)
	if err != nil {
		return err
	}
	if in.journal != nil {
		in.later(func() error { return in.journal.Close(in.saved()) })
	}
	in.shared, err = newSharing(cfg, in.Node, in.Governor, in.Metrics, in.seen, in.log)
	if err != nil {
		return err
	}
	in.told = newTold(cfg.StateDir, in.shared, in.log)
	in.spend = newSpending(snap.Location(), in.journal, in.shared, in.Metrics, in.log)
	if in.shared != nil && rules.Past != nil {
		in.shared.journals = rules.PoolBookings()
	}
	if in.shared != nil {
		in.later(func() error { in.shared.store.Close(); return nil })
	}
	in.Admission = admission.New(admission.Options{Snapshot: snap, Governor: in.Governor, Metrics: in.Metrics, Node: in.Node, TokenRefused: tokenRefused(opt.Log), Prompts: opt.Prompts})
	if rules.Past != nil {
		in.recalled = rules.Past.Upstreams
	}
	if rules.Past != nil && rules.Past.Estimates != nil {
		var learned admission.Lessons
		if err := json.Unmarshal(rules.Past.Estimates, &learned); err != nil {
			in.log.Warn("state_dir: what was learned of tokens cannot be read, and is learned anew", "dir", cfg.StateDir, "error", err)
		}
		in.Admission.Recall(learned)
	}
	in.over, err = newOverrides(cfg.StateDir, in.Admission.Override, in.log)
	if err != nil {
		return err
	}
	policy := func() *tenants.Snapshot { return in.Admission.Policy().Snapshot }
	in.over.policy = policy
	in.watch(snap)
	if in.shared != nil {
		in.shared.leaves = in.Admission.Leaving
		in.over.store = in.shared.store
	}
	in.engines = NewEngines(policy, in.Governor, in.log)
	in.Metrics.WatchEngines(in.engines.states)
	return nil
}

// saved is what the next process begins with, beside the journal's records.
func (in *Instance) saved() record.Saved {
	s := in.Governor.Saved()
	if in.Admission != nil {
		s.Estimates, _ = json.Marshal(in.Admission.Learned()) // names and numbers can always be written
	}
	s.Upstreams = in.recalled
	if in.learned != nil {
		s.Upstreams, _ = json.Marshal(in.learned())
	}
	return s
}

// Keep has what is learned of upstreams' limits saved as JSON with the rest, and returns what an earlier process had learned; nil is nothing. Call it
// before Run.
func (in *Instance) Keep(learned func() any) (before json.RawMessage) {
	in.learned = learned
	return in.recalled
}

// record writes all decisions to decision_log, if the config has one, exactly.
func (in *Instance) record(to *tenants.DecisionLog, ring *events.Ring, rules *governor.Config) error {
	if to.Path == "" {
		return nil
	}
	w, err := decisions.Open(decisions.Options{Path: to.Path, MaxSize: to.MaxSize, Keep: int(to.Keep), Node: in.Node, Log: in.log})
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	in.later(w.Close)
	rules.Observer = observers{ring, w}
	rules.Recorded = true
	in.seen = w.See
	in.Metrics.WatchDecisionLog(w.Lost)
	return nil
}

// watch connects the metrics with their sources.
func (in *Instance) watch(snap *tenants.Snapshot) {
	in.Metrics.Watch(in.Governor.State, snap.Hash())
	in.Metrics.WatchDraining(in.Admission.Leaving)
	in.Metrics.WatchStore(func() bool { return (in.journal == nil || in.journal.Up()) && in.shared.Up() })
	if in.shared == nil {
		in.Metrics.WatchSingle(in.Governor.State, snap.Config().Region)
	}
}

// Run keeps the journal, speaks with the store and reads the load of servers, until ctx ends.
func (in *Instance) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return in.engines.Run(ctx) })
	group.Go(func() error { return in.warn(ctx) })
	group.Go(func() error { return in.spend.Run(ctx) })
	if in.told.notes != nil && in.shared == nil {
		group.Go(func() error { return in.told.notes.Run(ctx) })
	}
	group.Go(func() error { return in.over.Run(ctx) })
	if in.shared != nil {
		group.Go(func() error { return in.shared.Run(ctx) })
	}
	if in.journal != nil {
		group.Go(func() error { return in.journal.Run(ctx, in.saved) })
	}
	return group.Wait()
}

// Overrides are laid over the limits of the policy.
func (in *Instance) Overrides() admin.Overrides { return in.over }

// Follow has the files loaded with the tenants that are set at run time, now and until ctx ends. files has to run.
func (in *Instance) Follow(ctx context.Context, set *Tenants, files *Reloader) {
	err := in.over.follow(func(list []tenants.RuntimeTenant) { set.list.Store(&list) }, func() error { _, err := files.Reload(ctx); return err })
	if err != nil {
		in.log.Warn("tenants that were set at run time are not in force", "error", err)
	}
}

// Await waits until the store has said which limits are overridden and has granted something, or is late. Run has to run.
func (in *Instance) Await(ctx context.Context) {
	if in.shared != nil {
		in.over.look(ctx)
		in.shared.await(ctx)
	}
}

// Ready returns the reason why load balancers should send no calls here, or nil.
func (in *Instance) Ready() error {
	switch {
	case in.journal != nil && !in.journal.Up():
		return errors.New("state_dir cannot be written")
	case !in.shared.Ready():
		return errors.New("another process has this one's node name")
	}
	return nil
}

// Announce tells other gateways where they can reach the admin side of this one. Call it before Run.
func (in *Instance) Announce(address string) {
	if in.shared != nil {
		in.shared.address = address
	}
}

// Spend calls each with the rows of the account of spend of some days, both included, and says whether these are of all gateways.
func (in *Instance) Spend(ctx context.Context, from, to string, each func(spend.Row)) (all bool, err error) {
	return in.spend.rows(ctx, from, to, each)
}

// First is store.Herald's, for something that one of all gateways is to tell.
func (in *Instance) First(ctx context.Context, what string, mine, until time.Time) (bool, error) {
	return in.told.first(ctx, what, mine, until)
}

// Conditions are what is wrong with the gateways that share the store, and with what it remembers.
func (in *Instance) Conditions(now time.Time) []adminapi.Condition { return in.shared.conditions(now) }

// tokenRefused logs why tokens are refused, of which anybody can send many.
func tokenRefused(log *slog.Logger) func(error) {
	gate := &sampled.Gate{Every: time.Minute, Most: 5}
	return func(err error) {
		if unlogged, ok := gate.Pass(time.Now()); ok {
			log.Warn("a token was refused", "error", err, "unlogged", unlogged)
		}
	}
}

// Peers returns the other gateways of the same store.
func (in *Instance) Peers() []adminapi.Peer { return in.shared.peers() }

// Others returns the addresses that they have announced.
func (in *Instance) Others() (list []string) {
	for _, p := range in.Peers() {
		if p.Address != "" {
			list = append(list, p.Address)
		}
	}
	return list
}

// CutOff reports whether nothing can be admitted here because the store does not answer.
func (in *Instance) CutOff() bool { return in.Governor.CutOff() }

// Reached reports whether the store of shared limits has ever answered; it is true if there is none.
func (in *Instance) Reached() bool { return in.shared.reached() }

// StoreUp reports whether the store of shared limits answers; there is true if there is one.
func (in *Instance) StoreUp() (up, there bool) { return in.shared.Up(), in.shared != nil }

// Engine is the load of an upstream's server; nil if it is not read.
func (in *Instance) Engine(upstream string) *adminapi.Engine { return in.engines.View(upstream) }

// Sharing is the sharing of a pool's limits, as of the last look; nil without a store.
func (in *Instance) Sharing(pool string) *adminapi.Sharing { return in.shared.view(pool) }

// Unreadable are the accounts of limits that the store cannot read.
func (in *Instance) Unreadable() []adminapi.Unreadable { return in.shared.unreadables() }

func (in *Instance) later(closer func() error) { in.closers = append(in.closers, closer) }

// Close closes what was opened, the last first. Run must have ended.
func (in *Instance) Close() (err error) {
	for _, closer := range slices.Backward(in.closers) {
		err = errors.Join(err, closer())
	}
	return err
}

// observers are called one after the other.
type observers []governor.Observer

func (list observers) Observe(e governor.Event) {
	for _, o := range list {
		o.Observe(e)
	}
}

// openState opens state_dir, if there is one, so that the governor's books survive restarts.
func openState(dir string, rules *governor.Config, m *telemetry.Metrics, log *slog.Logger) (j *durable.Journal, err error) {
	if dir == "" {
		return nil, nil
	}
	j, rules.Past, err = durable.Open(durable.Options{Dir: dir, Zone: rules.Zone, Log: log})
	if err != nil {
		return nil, err
	}
	rules.Journal = j
	m.Expired.Add(float64(rules.Past.CutOff()))
	return j, nil
}

func defaultNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
