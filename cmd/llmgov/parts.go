package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	neturl "net/url"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/llmgov/llmgov/governor/tokens/bpe"
	"github.com/llmgov/llmgov/internal/lib/certs"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/console"
	"github.com/llmgov/llmgov/internal/ops/notify"
	"github.com/llmgov/llmgov/internal/ops/readiness"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/ops/tracing/otlp"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

// parts are the components of a gateway that serves.
type parts struct {
	*instance.Instance
	log      *slog.Logger
	tracer   *tracing.Tracer
	otlp     *sdkmetric.MeterProvider // sends metrics; nil if nobody wants them
	gateway  *gateway.Gateway
	owners   *objects.Store
	adminTLS *certs.Watched
	// peers asks other gateways.
	peers *http.Client
	// readiness decides whether calls should come here while the store is lost.
	readiness *readiness.Watch
}

// build opens the components that a policy needs; fresh is as in governor.Config. Call close afterwards, also after an error.
func (p *parts) build(ctx context.Context, snap *tenants.Snapshot, fresh bool) (err error) {
	p.Instance, err = instance.Open(instance.Options{Snapshot: snap, Log: p.log, Prompts: bpe.New(), Fresh: fresh})
	if err != nil {
		return err
	}
	p.adminTLS, err = p.certificate("admin.tls", snap.Config().Admin.TLS, "http/1.1")
	if err != nil {
		return err
	}
	p.peers = readiness.NewClient(p.adminTLS.Dial)
	p.readiness = readiness.New(readiness.Config{
		Rule: readiness.Rule(snap.Config().Admin.UnreadyOnStoreLoss), CutOff: p.CutOff, Reached: p.Reached, Others: p.Others, Client: p.peers,
	})
	p.owners, err = objects.Open(snap.Config().StateDir, p.log)
	if err != nil {
		return err
	}
	who := otlp.Options{Version: versionText(), Node: p.Node, Log: p.log}
	p.tracer, err = otlp.Start(ctx, who)
	if err == nil {
		p.otlp, err = otlp.StartMetrics(ctx, who, p.Metrics)
	}
	if err != nil {
		return err
	}
	p.gateway, err = gateway.New(gateway.Options{Admission: p.Admission, Tracer: p.tracer, Log: p.log, Objects: p.owners, Events: p.Events})
	if err != nil {
		return err
	}
	p.gateway.Recall(p.Keep(func() any { return p.gateway.Learned() }))
	return nil
}

// adminSide is the admin API and its server. Its streams of events end when the server is shut
// down.
func (p *parts) adminSide(cfg *tenants.Config, drain func(), policies *instance.Reloader, played *demo) (*admin.API, *http.Server) {
	closing := make(chan struct{})
	api := admin.New(p.gateway, admin.Options{
		Governor:   p.Governor,
		Log:        p.log,
		Metrics:    p.Metrics.Handler(),
		Events:     p.Events,
		Token:      cfg.Admin.Token,
		Version:    versionText(),
		Node:       p.Node,
		Region:     cfg.Region,
		Drain:      drain,
		Ready:      func() error { return cmp.Or(p.Ready(), p.readiness.Unready()) },
		StoreUp:    p.StoreUp,
		Policies:   policies,
		Overrides:  p.Overrides(),
		Sharing:    p.Sharing,
		Unreadable: p.Unreadable,
		Spend:      p.Spend,
		Peers:      p.Peers,
		PeerClient: p.peers,
		Conditions: func(now time.Time) []adminapi.Condition {
			return append(p.Conditions(now), p.gateway.Conditions(now)...)
		},
		Engine:  p.Engine,
		Console: console.Handler(),
		Caption: played.now,
		Closing: closing,
	})
	s := newServer(api, p.log, cfg.Timeouts.ReadHeader)
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	return api, s
}

// notifier tells the webhooks of the policy in force what the admin side sees.
func (p *parts) notifier(api *admin.API) *notify.Notifier {
	return notify.New(notify.Options{
		Hooks: func() (list []notify.Hook) {
			for _, w := range p.gateway.Snapshot().Config().Notify {
				list = append(list, notify.Hook{URL: w.URL, Secret: w.Secret, On: w.On, Slack: w.Format == tenants.FormatSlack})
			}
			return list
		},
		Facts: api.Facts, First: p.First, Node: p.Node, Fleet: fleetOf(p.gateway.Snapshot().Config().Store), Log: p.log,
	})
}

// fleetOf names the gateways of a store: by its address without what may be a secret, and "" without a store.
func fleetOf(store string) string {
	at, err := neturl.Parse(store)
	if err != nil || at.Host == "" {
		return ""
	}
	return at.Host + at.Path
}

// close closes what was opened, the last first.
func (p *parts) close() (err error) {
	if p.owners != nil {
		err = p.owners.Close()
	}
	if p.Instance != nil {
		err = errors.Join(err, p.Instance.Close())
	}
	return err
}
