package plan

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
)

// together makes one run of those of gateways that share limits, as if one had decided all of
// it: by the time on the wall, as each gateway's clock has it. The store remembers what counted
// over their restarts, so one run goes on where another one of the same gateway ended. It takes
// over what it is given.
func together(runs []*Run) *Run {
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.begins().Compare(b.begins()) })
	first := runs[0]
	all := &Run{fleet: true, Start: decisions.Start{Time: first.begins(), Zone: first.Start.Zone}, Policy: first.Policy}
	for _, r := range runs {
		r.breakOff()
		r.moveTo(all.Start.Time)
		all.Calls = append(all.Calls, r.Calls...)
		all.end = max(all.end, r.end)
		all.Lost += r.Lost
		if r.Late {
			all.Late = true
			all.since = max(all.since, r.begin)
		}
	}
	slices.SortStableFunc(all.Calls, func(a, b *Call) int { return cmp.Compare(a.At, b.At) })
	all.changes = changesOf(runs)
	return all
}

// begins is when the record of a run begins, and ends when its last line was written.
func (r *Run) begins() time.Time { return r.Start.Time.Add(time.Duration(r.begin)) }

func (r *Run) ends() time.Time { return r.Start.Time.Add(time.Duration(r.end)) }

// breakOff ends a run's calls in flight with it: the process has ended, and others go on.
func (r *Run) breakOff() {
	for _, c := range r.Calls {
		switch {
		case c.Decided.Outcome == Open:
			c.leftAt = r.end
		case c.Decided.Outcome == Admitted && c.Ending == "":
			c.Ending = governor.EndBroken.String()
			c.Ran = time.Duration(r.end - c.Decided.At)
			c.Took.Input = c.Request.Input
			for _, p := range c.progress {
				c.Took.Output = max(c.Took.Output, p.output)
			}
		}
	}
}

// moveTo counts time from another origin.
func (r *Run) moveTo(origin time.Time) {
	by := int64(r.Start.Time.Sub(origin))
	r.Start.Time = origin
	for _, c := range r.Calls {
		c.At += by
		if c.Decided.Outcome != Open {
			c.Decided.At += by
		}
		if c.leftAt > 0 {
			c.leftAt += by
		}
	}
	for i := range r.changes {
		c := &r.changes[i]
		c.At += by
		for k := range c.Cuts {
			c.Cuts[k].Until += by
		}
	}
	for i := range r.seen {
		r.seen[i].at += by
	}
	r.begin = r.begin + by
	r.end = r.end + by
}

// changesOf are the policies and cuts that were in force in all gateways together.
func changesOf(runs []*Run) (out []change) {
	type told struct {
		change
		run *Run
	}
	var list []told
	for _, r := range runs {
		start := decisions.Line{At: r.begin, Kind: decisions.Started, Policy: r.Policy}
		list = append(list, told{change{Line: start}, r})
		for _, c := range r.changes {
			list = append(list, told{c, r})
		}
	}
	slices.SortStableFunc(list, func(a, b told) int { return cmp.Compare(a.At, b.At) })
	policies := policies{taken: map[*Run]int{}}
	cuts := cuts{runs: runs, of: map[string]map[*Run][]decisions.Cut{}}
	for _, c := range list {
		switch c.Kind {
		case decisions.Started, decisions.Applied:
			if policies.take(c.run, c.Policy, c.Kind == decisions.Started) && len(policies.list) > 1 {
				c.Kind = decisions.Applied
				out = append(out, c.change)
			}
		case decisions.Throttled:
			c.Cuts = cuts.take(c.run, &c.Line)
			out = append(out, c.change)
		}
	}
	return out
}

// policies are those that gateways had, one after the other.
type policies struct {
	list  []*decisions.Policy
	taken map[*Run]int // which one each gateway has
}

// take says that a gateway takes up a policy, and reports whether it is new. Who only follows
// another one that has it already changes nothing, unless it starts: what it reads then is what
// holds from now on.
func (p *policies) take(r *Run, policy *decisions.Policy, starts bool) bool {
	last := len(p.list) - 1
	from := last
	if !starts {
		from = p.taken[r] + 1
	}
	for i := max(0, from); i <= last; i++ {
		if sameLimits(p.list[i], policy) {
			p.taken[r] = i
			return false
		}
	}
	p.list = append(p.list, policy)
	p.taken[r] = last + 1
	return true
}

// sameLimits reports whether two policies are one to a governor, whatever else is in their files.
func sameLimits(a, b *decisions.Policy) bool {
	return reflect.DeepEqual(a.Pools, b.Pools) && reflect.DeepEqual(a.Tenants, b.Tenants)
}

// cuts are those that each gateway has put in force in each pool.
type cuts struct {
	runs []*Run
	of   map[string]map[*Run][]decisions.Cut
}

// take says that a gateway has other cuts in a pool, and returns what all of them come to. Of as
// many as there are, each cuts its part.
func (s *cuts) take(r *Run, l *decisions.Line) (out []decisions.Cut) {
	pool := s.of[l.Pool]
	if pool == nil {
		pool = map[*Run][]decisions.Cut{}
		s.of[l.Pool] = pool
	}
	pool[r] = l.Cuts
	gateways := int64(0)
	for _, o := range s.runs {
		if o.begin > l.At || o.end < l.At {
			delete(pool, o)
			continue
		}
		gateways++
	}
	for _, o := range s.runs {
		for _, c := range pool[o] {
			c.Part = partOf(c.Part, gateways)
			for _, less := range []*int64{&c.TPM, &c.RPM, &c.ITPM, &c.OTPM} {
				*less = partOf(*less, gateways)
			}
			out = append(out, c)
		}
	}
	return out
}

// partOf is one of so many equal parts, rounded up: all together are no less than the whole.
func partOf(amount, gateways int64) int64 {
	return int64(math.Ceil(float64(amount) / float64(gateways)))
}

// config is a configuration as a run is decided by it. With its grants it is that of a gateway which shares limits.
func (r *Run) config(cfg governor.Config) governor.Config {
	cfg.Shared = r.Start.Grants
	cfg.SharedLimits = r.Start.Grants
	cfg.SharedSlots = r.Start.Grants
	if r.fleet {
		cfg.Pools = slices.Clone(cfg.Pools)
		for i := range cfg.Pools {
			cfg.Pools[i] = cfg.Pools[i].Together()
		}
	}
	return cfg
}
