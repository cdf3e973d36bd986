package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
)

// at is the part of a trace that happened at one upstream.
func (t *Trace) at(upstream int) *Trace {
	part := &Trace{Requests: t.Requests}
	for i := range t.Events {
		if at, ran := t.Upstreams[t.Events[i].Request]; ran && at == upstream {
			part.Events = append(part.Events, t.Events[i])
		}
	}
	return part
}

// upstreams are the figures of upstreams with limits of their own.
func (a *audit) upstreams(f *Figures) {
	if len(a.Pool.Upstreams) == 0 {
		return
	}
	f.UpstreamsMax = 0
	for i, u := range a.Pool.Upstreams {
		part := a.trace.at(i)
		for k, axis := range placement.Axes {
			if limit := *u.Amount(axis); limit > 0 {
				f.UpstreamsMax = max(f.UpstreamsMax, Value(rollingMax(part, escrow.Axis(k), nil))/Value(limit))
			}
		}
		if u.Concurrency > 0 {
			f.UpstreamsMax = max(f.UpstreamsMax, Value(mostRunning(part, nil))/Value(u.Concurrency))
		}
	}
	a.spills(f)
	a.recoveries(f)
	a.recalls(f)
}

// recalls are the figures of what upstreams had cached.
func (a *audit) recalls(f *Figures) {
	later := 0
	whole := 0
	prompts := int64(0)
	found := int64(0)
	for _, x := range a.trace.Recalls {
		r := &a.trace.Requests[x.Request]
		if r.At < a.Warmup {
			continue
		}
		prompts += r.Input
		found += x.Found
		if x.Before > 0 {
			later++
			if x.Found == x.Before {
				whole++
			}
		}
	}
	f.CacheCalls = part(whole, later)
	if prompts > 0 {
		f.CacheTokens = Value(float64(found) / float64(prompts))
	}
}

// spills are the figures of what goes to upstreams of higher orders.
func (a *audit) spills(f *Figures) {
	used := make([]rolling, len(a.Pool.Upstreams))
	all := 0.0
	spilled := 0.0
	full := 0.0
	for i := range a.trace.Events {
		e := &a.trace.Events[i]
		if e.Kind != Used {
			continue
		}
		used[a.trace.Upstreams[e.Request]].add(e.At, e.Request, e.Tokens)
		if e.At < a.Warmup || e.Tokens < 0 {
			continue
		}
		all += float64(e.Tokens)
		limit := 0.0
		taken := 0.0
		for _, lower := range a.lower(e) {
			used[lower].leave(e.At)
			limit += float64(a.Pool.Upstreams[lower].TPM)
			taken += float64(used[lower].sum)
		}
		if limit > 0 {
			spilled += float64(e.Tokens)
			full += float64(e.Tokens) * taken / limit
		}
	}
	if spilled > 0 {
		f.Spilled = Value(spilled / all)
		f.SpillFull = Value(full / spilled)
	}
}

// lower are the upstreams with a limit on tokens and a lower order than that where an event is, to which its request might have gone.
func (a *audit) lower(e *Occurrence) (list []int) {
	order := a.Pool.Upstreams[a.trace.Upstreams[e.Request]].Order
	leaf := &a.tree.Leaves[a.trace.Requests[e.Request].Tenant]
	for i, u := range a.Pool.Upstreams {
		if u.Order < order && u.TPM > 0 && leaf.may(i) && !a.lostAt(i, e.At) {
			list = append(list, i)
		}
	}
	return list
}

// may reports whether a leaf's calls may use an upstream.
func (l *Leaf) may(upstream int) bool { return l.Via == 0 || l.Via&escrow.Mask(0).With(upstream) != 0 }

// lostAt reports whether an upstream is lost at a time.
func (p *plan) lostAt(upstream int, at time.Duration) bool {
	for _, l := range p.losses {
		if l.upstream == upstream && l.from <= at && at < l.to {
			return true
		}
	}
	return false
}

// recoveries are the times from a change of what upstreams there are until a second begins from which ten seconds long
// 95 % of them is used.
func (a *audit) recoveries(f *Figures) {
	const look = 10 * time.Second
	m := a.meas[0]
	seconds := newGrid(0, time.Second, a.Duration, len(a.tree.Leaves))
	a.received(a.trace, m, seconds)
	for _, l := range a.losses {
		for _, change := range []time.Duration{l.from, l.to} {
			if change < a.Warmup || change+look > a.Duration {
				continue
			}
			at := change
			for ; at+look <= a.Duration; at += time.Second {
				got := 0.0
				for second := at; second < at+look; second += time.Second {
					k, _ := seconds.window(second)
					got += sum(seconds.cells[k])
				}
				if got >= 0.95*a.open(m, at, at+look) {
					break
				}
			}
			f.Recovery = most(f.Recovery, Value((at - change).Seconds()))
		}
	}
}
