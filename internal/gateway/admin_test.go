package gateway

import "github.com/llmgov/llmgov/internal/admin"

// adminSide is the admin side of a gateway, as serve wires it.
func adminSide(g *Gateway, opt admin.Options) *admin.API {
	opt.Governor = g.gov
	opt.Log = g.log
	opt.Metrics = g.metrics.Handler()
	opt.Events = g.events
	return admin.New(g, opt)
}
