package inprocess

import (
	"cmp"
	"context"
	"net/http"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// Door is a doors.Door to a controller in this process.
type Door struct{ ctl *admission.Controller }

// New returns a Door to ctl.
func New(ctl *admission.Controller) *Door { return &Door{ctl} }

// Reserve implements doors.Door.
func (d *Door) Reserve(ctx context.Context, req client.Request) (doors.Held, error) {
	return d.reserve(ctx, &req, false)
}

// ReserveTold is Reserve for a call whose end the tenant's own program tells.
func (d *Door) ReserveTold(ctx context.Context, req client.Request) (doors.Held, error) {
	return d.reserve(ctx, &req, true)
}

func (d *Door) reserve(ctx context.Context, req *client.Request, told bool) (doors.Held, error) {
	c := calls.Get().(*admission.Call)
	h := &held{door: d, call: c}
	c.Early = &h.early
	c.Begin(ctx, d.ctl, d.ctl.Policy(), req.ID)
	a := askOf(req)
	a.Told = told
	refused := c.Enter(admission.Caller{Key: req.Key, Tenant: req.Tenant}, a)
	if refused == nil {
		c.Send()
		h.grant = grant(c)
		return h, nil
	}
	defer c.Close()
	if refused.Status == admission.StatusClientClosed {
		return nil, cmp.Or(ctx.Err(), context.DeadlineExceeded) // which the context may notice a moment later
	}
	r := d.refusal(c.ID, refused)
	if c.Tenant != nil {
		g := grant(c)
		d.show(r.Header, &g)
	}
	return nil, r
}

// grant says whose the lease of a call is, as far as that is known.
func grant(c *admission.Call) client.Grant {
	g := client.Grant{ID: c.ID, Tenant: c.Tenant.Name, MaxOutput: c.Tenant.MaxOutputTokens, Waited: c.Waited()}
	if c.Pool != nil {
		g.Pool = c.Pool.Name
	}
	return g
}

// Knows implements doors.Keyring.
func (d *Door) Knows(key string) bool {
	_, ok := d.ctl.TenantOf(key)
	return ok
}

// Shutdown implements doors.Door. It ends nothing: the controller is its maker's.
func (d *Door) Shutdown(context.Context) error { return nil }

// refusal is the refusal of a call as clients see it.
func (d *Door) refusal(id string, f *ask.Refusal) *client.Refusal {
	r := &client.Refusal{
		ID: id, Status: f.Status, Code: client.Code(f.Code), Kind: f.Kind, Param: f.Param, Message: f.Message,
		RetryAfter: f.RetryAfter, Final: f.Final, Header: http.Header{},
	}
	rateheaders.Node(r.Header, d.ctl.Node())
	rateheaders.Retry(r.Header, f.Status, f.RetryAfter, f.Final)
	return r
}

// show sets the headers that show where the tenant of a call stands.
func (d *Door) show(header http.Header, g *client.Grant) {
	rateheaders.Show(header, d.ctl.Governor(), g.Tenant, g.Pool)
	rateheaders.Queued(header, g.Waited)
	if g.ID != "" {
		header["X-Request-Id"] = []string{g.ID}
	}
}
