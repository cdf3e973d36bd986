package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/adminview"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// Options are the parts that a Gateway is made of.
type Options struct {
	// Admission admits the calls. Others may ask it, too: they share its limits.
	Admission *admission.Controller
	Log       *slog.Logger
	// Tracer makes spans of calls; nil makes none.
	Tracer *tracing.Tracer
	// Objects remembers which tenant made which object at the upstreams; nil remembers in memory.
	Objects *objects.Store
	// Events has what the Governor reports, for readers who follow it; nil if nobody does.
	Events *events.Ring
	// Transport reaches the upstreams; nil means NewTransport.
	Transport http.RoundTripper
}

// New returns a Gateway.
func New(opt Options) (*Gateway, error) {
	g := &Gateway{
		gov: opt.Admission.Governor(), metrics: opt.Admission.Metrics(), admission: opt.Admission, tracer: opt.Tracer, log: opt.Log, objects: opt.Objects,
		events: opt.Events, transport: opt.Transport, declared: map[string]upstreams.Told{},
		lookups: lookups{due: map[string]time.Time{}},
	}
	var err error
	if g.objects == nil {
		g.objects, err = objects.Open("", opt.Log)
		if err != nil {
			return nil, err
		}
	}
	g.unknown = sampled.Gate{Every: time.Second, Most: 5}
	snap := g.admission.Policy().Snapshot
	g.intake = intake.New(bodyBounds(snap))
	g.metrics.WatchBodies(g.intake.Bytes)
	err = g.admission.Follow(g.prepare)
	if err != nil {
		return nil, err
	}
	g.View = adminview.New(g.admission)
	g.metrics.WatchUpstreams(g.upstreamStates)
	if g.transport == nil {
		g.transport = NewTransport(snap.Config().LeanHTTP)
	}
	g.unkept = withoutKept(g.transport)
	g.batches.Again(g.objects, g.gov, g.admission.Policy())
	return g, nil
}
