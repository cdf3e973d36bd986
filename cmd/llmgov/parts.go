package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens/bpe"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/console"
	"github.com/llmgov/llmgov/internal/decisions"
	"github.com/llmgov/llmgov/internal/durable"
	"github.com/llmgov/llmgov/internal/events"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/policy"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/tenants"
)

// parts are the components of a gateway that serves.
type parts struct {
	log     *slog.Logger
	metrics *telemetry.Metrics

	node     string
	journal  *durable.Journal // nil without a state_dir
	governor *governor.Governor
	shared   *sharing             // nil without a shared store
	seen     func(nodes []string) // receives the gateways that share limits; nil without a decision_log
	tracer   *tracing.Tracer
	gateway  *gateway.Gateway
	events   *events.Ring

	closers []func() error // in the order of opening
}

// keptEvents is the number of events that a reader of /api/v1/events may fall behind.
const keptEvents = 4096

// build opens the components that a policy needs. Call close afterwards, also after an error.
func (p *parts) build(ctx context.Context, snap *tenants.Snapshot) (err error) {
	cfg := snap.Config()
	p.node = cfg.Node
	if p.node == "" {
		p.node = defaultNode()
	}
	rules := policy.Governor(snap)
	rules.Shared = cfg.Store != notShared
	rules.SharedLimits = rules.Shared
	rules.SharedSlots = rules.Shared
	p.journal, err = openState(cfg.StateDir, &rules, p.metrics, p.log)
	if err != nil {
		return err
	}
	p.events = events.NewRing(keptEvents)
	rules.Observer = p.events
	if err := p.record(&cfg.DecisionLog, p.events, &rules); err != nil {
		return err
	}
	p.governor, err = governor.New(rules)
	if err != nil {
		return err
	}
	if p.journal != nil {
		p.later(func() error { return p.journal.Close(p.governor.Shares()) })
	}
	owners, err := objects.Open(cfg.StateDir, p.log)
	if err != nil {
		return err
	}
	p.later(owners.Close)
	p.shared, err = newSharing(cfg, p.node, p.governor, p.metrics, p.seen, p.log)
	if err != nil {
		return err
	}
	if p.shared != nil {
		p.later(func() error { p.shared.store.Close(); return nil })
	}
	p.watch(snap)
	p.tracer, err = tracing.Start(ctx, tracing.Options{Version: versionText(), Node: p.node, Log: p.log})
	if err != nil {
		return err
	}
	p.gateway, err = gateway.New(gateway.Options{
		Admission: admission.New(admission.Options{Snapshot: snap, Governor: p.governor, Metrics: p.metrics, Prompts: bpe.New()}),
		Tracer:    p.tracer, Log: p.log, Objects: owners, Events: p.events,
	})
	return err
}

// record writes all decisions to decision_log, if the config has one. Their times are exact to the nanosecond;
// with a shared store nearly, because other gateways take part in them.
func (p *parts) record(to *tenants.DecisionLog, ring *events.Ring, rules *governor.Config) error {
	if to.Path == "" {
		return nil
	}
	w, err := decisions.Open(decisions.Options{Path: to.Path, MaxSize: to.MaxSize, Keep: int(to.Keep), Node: p.node, Log: p.log})
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	p.later(w.Close)
	rules.Observer = observers{ring, w}
	rules.Recorded = !rules.Shared
	rules.Detailed = true
	p.seen = w.See
	p.metrics.WatchDecisionLog(w.Lost)
	return nil
}

// watch connects the metrics with their sources.
func (p *parts) watch(snap *tenants.Snapshot) {
	p.metrics.Watch(p.governor.State, snap.Hash())
	p.metrics.WatchDraining(p.governor.Draining)
	p.metrics.WatchStore(func() bool { return (p.journal == nil || p.journal.Up()) && p.shared.Up() })
	if p.shared == nil {
		p.metrics.WatchSingle(p.governor.State, snap.Config().Region)
	}
}

// adminSide is the admin API and its server. Its streams of events end when the server is shut
// down.
func (p *parts) adminSide(cfg *tenants.Config, drain func(), policies *reloader) (*admin.API, *http.Server) {
	closing := make(chan struct{})
	api := admin.New(p.gateway, admin.Options{
		Governor: p.governor,
		Log:      p.log,
		Metrics:  p.metrics.Handler(),
		Events:   p.events,
		Token:    cfg.Admin.Token,
		Version:  versionText(),
		Node:     p.node,
		Region:   cfg.Region,
		Drain:    drain,
		Ready:    func() error { return notReady(p.journal, p.shared) },
		Policies: policies,
		Sharing:  p.shared.view,
		Console:  console.Handler(),
		Closing:  closing,
	})
	s := newServer(api, p.log, cfg.Timeouts.ReadHeader)
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	return api, s
}

func (p *parts) later(closer func() error) { p.closers = append(p.closers, closer) }

// close closes what was opened, the last first.
func (p *parts) close() (err error) {
	for _, closer := range slices.Backward(p.closers) {
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

// notReady is the reason why load balancers should send no calls here, or nil.
func notReady(journal *durable.Journal, shared *sharing) error {
	switch {
	case journal != nil && !journal.Up():
		return errors.New("state_dir cannot be written")
	case !shared.Ready():
		return errors.New("another process has this one's node name")
	}
	return nil
}

func defaultNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
