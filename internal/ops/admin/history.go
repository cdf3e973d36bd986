package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/history"
)

// historyTop is the number of tenants in a history without a tenant in the query.
const historyTop = 20

// Run records the history that the admin API shows, until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.history.Run(ctx) }

// readings are the values that the history records now.
func (a *API) readings() []history.Reading {
	var out []history.Reading
	snap := a.gateway.Snapshot()
	s := a.Governor.State(a.shown(&page{})...)
	for i := range s.Pools {
		p := &s.Pools[i]
		if !hasPool(snap, p.Config.Name) {
			continue // a policy is being taken over
		}
		first := firstLimit(p)
		r := history.Reading{Pool: p.Config.Name, Used: first.Used, Limit: first.Limit, Running: p.Running, Waiting: int64(p.Waiting)}
		for k := range p.Shares {
			share := &p.Shares[k]
			t := history.TenantReading{Name: share.Tenant, Received: share.Received, Entitled: share.Entitled}
			t.Refused, t.Failed = a.gateway.Counts(share.Tenant, p.Config.Name)
			r.Tenants = append(r.Tenants, t)
		}
		out = append(out, r)
	}
	return out
}

// firstLimit is the limit that charts of a pool show, or the number of running calls without one.
func firstLimit(p *governor.PoolState) adminapi.Limit {
	limits := limitsOf(p)
	if len(limits) == 0 {
		return adminapi.Limit{Axis: escrow.Slots.String(), Used: p.Running}
	}
	return limits[0]
}

// showHistory answers GET /api/v1/history.
func (a *API) showHistory(rw http.ResponseWriter, r *http.Request) error {
	snap := a.gateway.Snapshot()
	query := r.URL.Query()
	for name := range query {
		if name != "pool" && name != "tenant" {
			return adminapi.BadRequest("There is no parameter " + strconv.Quote(text.Brief(name)) + "; there are pool and tenant.")
		}
	}
	name := query.Get("pool")
	if !hasPool(snap, name) {
		return poolNotFound(name)
	}
	var names []string
	for _, value := range query["tenant"] {
		names = append(names, strings.Split(value, ",")...)
	}
	for _, tenant := range names {
		if _, ok := snap.TenantByName(tenant); !ok {
			return tenantNotFound(tenant)
		}
	}
	h := historyView(a.history.Pool(name, names, historyTop))
	h.Pool = name
	h.Axis = a.axisOf(name)
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(h) // not indented, because it has thousands of numbers
	return nil
}

// axisOf is the axis of a pool's first limit.
func (a *API) axisOf(pool string) string {
	s := a.Governor.State(nobody)
	for i := range s.Pools {
		if s.Pools[i].Config.Name == pool {
			return firstLimit(&s.Pools[i]).Axis
		}
	}
	return ""
}

func historyView(s history.Series) adminapi.History {
	h := adminapi.History{
		StepSeconds: history.Step.Seconds(), Times: []int64{}, Tenants: []adminapi.TenantHistory{},
		TenantsActive: s.Active, TenantsOmitted: s.Omitted,
	}
	for i, at := range s.Times {
		p := &s.Points[i]
		var limit *int64
		if p.Limit > 0 {
			limit = &p.Limit
		}
		h.Times = append(h.Times, at.Unix())
		h.Used = append(h.Used, p.Used)
		h.Limit = append(h.Limit, limit)
		h.Running = append(h.Running, p.Running)
		h.Waiting = append(h.Waiting, p.Waiting)
		h.Received = append(h.Received, float64(p.Received))
		h.Refused = append(h.Refused, p.Refused)
		h.Failed = append(h.Failed, p.Failed)
	}
	for _, t := range s.Tenants {
		h.Tenants = append(h.Tenants, adminapi.TenantHistory(t))
	}
	return h
}
