package instance

import (
	"log/slog"
	"slices"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/engine"
	"github.com/llmgov/llmgov/tenants"
)

// Engines are the servers of upstreams whose load is read, for the pools in front of them.
type Engines struct {
	*engine.Watcher
	policy func() *tenants.Snapshot
	gov    *governor.Governor

	// list are the servers of the policy of, for the goroutine of Run alone.
	list []engine.Target
	of   *tenants.Snapshot
}

// NewEngines reads what the policy in force names, once it runs.
func NewEngines(policy func() *tenants.Snapshot, gov *governor.Governor, log *slog.Logger) *Engines {
	e := &Engines{policy: policy, gov: gov}
	e.Watcher = engine.NewWatcher(engine.Options{Targets: e.targets, Heard: e.heard, Log: log})
	return e
}

// targets are the servers that the policy in force names.
func (e *Engines) targets() []engine.Target {
	if snap := e.policy(); snap != e.of {
		e.of = snap
		e.list = targetsOf(snap.Config().Upstreams)
	}
	return e.list
}

// targetsOf are the servers of upstreams.
func targetsOf(upstreams []tenants.Upstream) (list []engine.Target) {
	for _, u := range upstreams {
		if u.Engine.Kind == "" {
			continue
		}
		t := engine.Target{Upstream: u.Name, URL: u.Engine.URL, Metrics: metricsOf(&u.Engine)}
		if u.Engine.SendKey {
			t.Key = u.APIKey
		}
		t.TLS, _ = u.TLS.Client() // the policy has been held to it
		list = append(list, t)
	}
	return list
}

// metricsOf are the names of a server's gauges.
func metricsOf(e *tenants.Engine) engine.Metrics {
	if e.Kind != tenants.EngineGeneric {
		return engine.Kinds[e.Kind]
	}
	return engine.Metrics{Running: e.Metrics.Running, Waiting: e.Metrics.Waiting, KVUse: e.Metrics.KVCache, MaxRunning: e.Metrics.MaxRunning}
}

// heard tells each pool the load of its servers.
func (e *Engines) heard() {
	snap := e.policy()
	for _, p := range snap.Pools() {
		if !p.Adapts() {
			continue
		}
		if load, ok := e.loadOf(snap, &p); ok {
			e.gov.ServersLoaded(p.Name, load)
		}
	}
}

// loadOf adds up the load of a pool's servers, of those that were heard of lately; ok is false if none was in the last round, so
// that no reading counts twice. Memory is as full as that of the fullest: calls go there, too. How many calls run at once at most
// is known if all say it.
func (e *Engines) loadOf(snap *tenants.Snapshot, p *tenants.Pool) (load governor.Load, ok bool) {
	unbounded := false
	for _, member := range p.Upstreams {
		u := upstreamOf(snap, member.Name)
		state, _ := e.State(member.Name)
		if u.Engine.Kind == "" || !state.Fresh {
			unbounded = true
			continue
		}
		ok = ok || state.New
		load.Running += state.Running
		load.Waiting += state.Waiting
		load.MaxRunning += state.MaxRunning
		load.Full = max(load.Full, state.KVUse*1e6/float64(u.Engine.KVCachePPM))
		unbounded = unbounded || state.MaxRunning == 0
	}
	if unbounded {
		load.MaxRunning = 0
	}
	return load, ok
}

func upstreamOf(snap *tenants.Snapshot, name string) *tenants.Upstream {
	list := snap.Config().Upstreams
	at := slices.IndexFunc(list, func(u tenants.Upstream) bool { return u.Name == name })
	return &list[max(0, at)]
}

// View is an upstream's server, for the admin side; nil if the policy names none, or none was read yet.
func (e *Engines) View(upstream string) *adminapi.Engine {
	state, ok := e.State(upstream)
	if !ok {
		return nil
	}
	v := &adminapi.Engine{Running: state.Running, Waiting: state.Waiting, KVUse: state.KVUse, Fresh: state.Fresh}
	if state.Err != nil {
		v.Error = state.Err.Error()
	}
	return v
}

// states are all servers that were read, for metrics.
func (e *Engines) states() (list []telemetry.EngineState) {
	for _, u := range e.policy().Config().Upstreams {
		if state, ok := e.State(u.Name); ok && u.Engine.Kind != "" {
			list = append(list, telemetry.EngineState{Upstream: u.Name, Up: state.Fresh, Running: state.Running, Waiting: state.Waiting, KVUse: state.KVUse})
		}
	}
	return list
}
