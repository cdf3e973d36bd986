package inprocess

import (
	"context"
	"net/http"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/rateheaders"
)

// Door is a client.Door to a controller in this process.
type Door struct{ ctl *admission.Controller }

// New returns a Door to ctl.
func New(ctl *admission.Controller) *Door { return &Door{ctl} }

// Reserve implements client.Door.
func (d *Door) Reserve(ctx context.Context, req client.Request) (*client.Lease, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	h := &held{ctl: d.ctl}
	c := &h.call
	c.Early = &h.early
	c.Begin(ctx, d.ctl, d.ctl.Policy(), req.ID)
	refused := c.Enter(admission.Caller{Key: req.Key, Tenant: req.Tenant}, h.ask(&req))
	if refused == nil {
		c.Send()
		h.lease.Begin(ctx, h, client.Grant{ID: c.ID, Tenant: c.Tenant.Name, Pool: c.Pool.Name, MaxOutput: c.Tenant.MaxOutputTokens, Waited: c.Waited()})
		return &h.lease, nil
	}
	defer c.Close()
	if refused.Status == admission.StatusClientClosed {
		return nil, ctx.Err()
	}
	r := refusal(c.ID, refused)
	if c.Tenant != nil {
		h.Show(r.Header)
	}
	return nil, r
}

// Close implements client.Door. It closes nothing: the controller is its maker's.
func (d *Door) Close() error { return nil }

// refusal is the refusal of a call as clients see it.
func refusal(id string, f *admission.Refusal) *client.Refusal {
	r := &client.Refusal{
		ID: id, Status: f.Status, Code: f.Code, Kind: f.Kind, Param: f.Param, Message: f.Message,
		RetryAfter: f.RetryAfter, Final: f.Final, Header: http.Header{},
	}
	rateheaders.Retry(r.Header, f.RetryAfter)
	if f.Final {
		rateheaders.Final(r.Header)
	}
	return r
}

// Show implements client.Held.
func (h *held) Show(header http.Header) {
	c := &h.call
	pool := ""
	if c.Pool != nil {
		pool = c.Pool.Name
	}
	rateheaders.Show(header, h.ctl.Governor(), c.Tenant.Name, pool)
	rateheaders.Queued(header, c.Waited())
	if c.ID != "" {
		header["X-Request-Id"] = []string{c.ID}
	}
}
