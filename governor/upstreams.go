package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// upstreamBooks are a pool's upstreams.
type upstreamBooks = placement.Books[upstreamLimits]

// configureUpstreams puts the upstreams of a configuration in force. Call limit afterwards.
func (p *poolView) configureUpstreams(now time.Time) {
	old := p.upstreams
	cfg := placement.Config{Upstreams: p.cfg.Upstreams, Holds: p.cfg.Accounting != escrow.AdmitMax}
	p.upstreams = old.Next(now, cfg, func(name string) upstreamLimits {
		own := newOwnLimits("upstream "+name, p.name, p.changes)
		own.of = p.pool
		return upstreamLimits{placement.Account{Set: &own.set}, own}
	})
	p.limitUpstreams(now)
	switch {
	case p.upstreams != nil:
		p.escrow.SetUpstreams(p.upstreams, p.upstreams.Since(old))
	case old != nil:
		p.escrow.SetUpstreams(nil, p.upstreams.Since(old))
	}
}

// limitUpstreams puts in force the limits of upstreams that the cuts leave.
func (p *pool) limitUpstreams(now time.Time) {
	if p.upstreams == nil {
		return
	}
	for _, u := range p.upstreams.List {
		own := u.Spec.Limits()
		u.Closed = time.Time{}
		for _, c := range p.cuts {
			if c.Upstream == u.Name && c.less() == (limits.Cost{}) && c.Until.After(u.Closed) {
				u.Closed = c.Until
			}
		}
		for k, limit := range lowered(own.Minute, p.cuts, u.Name) {
			own.Minute[k] = p.rules.Usable(limit)
		}
		u.Limits.own.configure(now, own, 0, calledBy{granted: true, closed: true})
	}
}

// upstreamsComing reports whether a call lacks nothing of upstreams but a larger part of limits that are shared.
func (p *pool) upstreamsComing(now time.Time, call *escrow.Call) (coming bool) {
	if p.upstreams == nil {
		return false
	}
	able := p.upstreams.Able(call.Via, call.Most)
	if _, has := p.upstreams.Choose(now, able, call.Most, call.Conversation); has {
		return false
	}
	p.upstreams.Each(able, func(_ int, u *placement.Upstream[upstreamLimits]) {
		coming = coming || !now.Before(u.Closed) && u.Limits.Coming(u.Limits.Clip(placement.CostOf(call.Most)))
	})
	return coming
}

// rememberUpstreams books what earlier processes used of the pool at each of its upstreams, because nobody knows at which it was.
func (p *pool) rememberUpstreams(now, began, ended time.Time, booked, took escrow.Cost) {
	if p.upstreams == nil {
		return
	}
	first := placement.CostOf(booked)
	whole := placement.CostOf(took)
	for _, u := range p.upstreams.List {
		u.Limits.Advance(now)
		u.Limits.Remember(began, ended, &first, &whole)
	}
}

// upstreamOf is the name of the upstream where a call runs; "" if the pool's upstreams have no limits of their own.
func (p *pool) upstreamOf(h escrow.Handle) string {
	if u := p.upstreams.At(h.Slot); u != nil {
		return u.Name
	}
	return ""
}
