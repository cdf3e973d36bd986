package embedded

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/console"
	"github.com/llmgov/llmgov/internal/run/adminview"
)

// Admin serves the admin side of the governor as a gateway does: metrics, the admin API with its explanations and
// events, the console, probes. A program that listens with it can be asked by llmgov explain and llmgov top.
//
//	go http.ListenAndServe("127.0.0.1:9090", governed.Admin())
//
// The config's admin.token is asked for. Without one, callers have to come to a loopback address.
func (g *Governor) Admin() http.Handler {
	d := g.door
	d.adminOnce.Do(func() { d.admin = d.newAdmin() })
	return d.admin
}

func (d *door) newAdmin() *admin.API {
	cfg := d.in.Admission.Policy().Snapshot.Config()
	opt := admin.Options{
		Governor: d.in.Governor,
		Log:      d.log,
		Metrics:  d.in.Metrics.Handler(),
		Events:   d.in.Events,
		Token:    cfg.Admin.Token,
		Version:  "embedded",
		Node:     d.in.Node,
		Region:   cfg.Region,
		Drain:    d.in.Governor.Drain,
		Ready:    d.in.Ready,
		StoreUp:  d.in.StoreUp,
		Sharing:  d.in.Sharing,
		Peers:    d.in.Peers,

		Overrides:  d.in.Overrides(),
		Conditions: d.in.Conditions,
		Console:    console.Handler(),
		Closing:    d.running.Done(),
	}
	if d.policies != nil {
		opt.Policies = d.policies
	}
	api := admin.New(adminview.New(d.in.Admission), opt)
	d.parts.Go(func() error { return api.Run(d.running) })
	return api
}
