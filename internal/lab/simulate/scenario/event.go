package scenario

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// event reads one entry of events.
func (p *parser) event(v value) {
	var e Event
	var o Outage
	var l Loss
	var from *tape
	readers := map[string]func(value){
		"at":          func(v value) { span(v, &e.At, 0, longest) },
		"every":       func(v value) { v.Duration(&e.Every, time.Second, longest) },
		"tenant":      func(v value) { p.tenantPath(v, &e.Tenant) },
		"load":        func(v value) { e.Load = new(Load); from = p.load(v, e.Load) },
		"cost_factor": func(v value) { v.Number(&e.CostFactor, 1e-3, 1e3) },
		"knee":        func(v value) { e.Knee = new(int64); v.Whole(e.Knee, 0, mostSlots) },
		"partition":   func(v value) { p.node(v, &o.Node) },
		"crash":       func(v value) { o.Crash = true; p.node(v, &o.Node) },
		"lost":        func(v value) { p.upstreamOf(v, &l.Upstream) },
		"for":         func(v value) { v.Duration(&o.For, time.Millisecond, longest) },
	}
	there := v.Fields(readers)
	has := func(key string) bool { _, ok := there[key]; return ok }
	if !has("at") {
		v.Problem("has no time; write at:")
	} else if e.At.To >= p.s.Duration {
		there["at"].Problem("%v is not before the end at %v; move it, or lengthen the run", e.At.To, p.s.Duration)
	}
	kinds := 0
	for _, key := range []string{"load", "cost_factor", "knee", "partition", "crash", "lost"} {
		if has(key) {
			kinds++
		}
	}
	outage := has("partition") || has("crash")
	switch {
	case kinds != 1:
		v.Problem("needs one of load, cost_factor, knee, partition, crash and lost; write exactly one")
	case from != nil:
		there["load"].Problem("takes its calls from a file, which only the load of a tenant can; write it there")
	case has("load") && !has("tenant"):
		v.Problem("changes a load and names no tenant; write tenant:")
	case has("knee") && p.s.Pool.Knee == 0:
		there["knee"].Problem("changes a server that is not there; write knee in pool, too")
	case has("knee") && has("tenant"):
		there["tenant"].Problem("has no meaning beside a knee; remove it")
	case outage && has("tenant"):
		there["tenant"].Problem("has no meaning beside a node; remove it")
	case has("partition") && !has("for"):
		v.Problem("cuts a node off and does not say how long; write for: 30s")
	case has("lost") && has("tenant"):
		there["tenant"].Problem("has no meaning beside an upstream; remove it")
	case has("lost") && !has("for"):
		v.Problem("loses an upstream and does not say how long; write for: 30s")
	case has("for") && !outage && !has("lost"):
		there["for"].Problem("has no meaning without partition, crash or lost; remove it")
	}
	if has("lost") {
		l.For = o.For
		e.Loss = &l
	}
	if outage {
		e.Outage = &o
	}
	p.s.Events = append(p.s.Events, e)
	if has("every") && e.Every < e.At.To-e.At.From {
		there["every"].Problem("%v is shorter than the range of at; events would overtake each other", e.Every)
	}
}

// tenantPath reads the name of a tenant that has a load.
func (p *parser) tenantPath(v value, into *string) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	leaf, known := p.leaves[text]
	switch {
	case !known:
		names := make([]string, 0, len(p.leaves))
		for name := range p.leaves {
			names = append(names, name)
		}
		if len(names) > 20 {
			v.Problem("there is no tenant %s; write a name, or org/team", strictyaml.Show(text))
			return
		}
		v.Problem("there is no tenant %s; %s", strictyaml.Show(text), strictyaml.Advise(text, names))
	case !leaf:
		v.Problem("%s has teams and no load of its own; name a team, such as %s/…", strictyaml.Show(text), text)
	default:
		*into = text
	}
}

// span reads one time, or two with ".." between them.
func span(v value, into *Span, least, most time.Duration) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	from, to, ranged := strings.Cut(text, "..")
	a, ok := v.ParseDuration(from, least, most)
	if !ok {
		return
	}
	b := a
	if ranged {
		b, ok = v.ParseDuration(to, least, most)
		if !ok {
			return
		}
	}
	if b < a {
		v.Problem("%s ends before it begins; write the earlier time first", strictyaml.Show(text))
		return
	}
	*into = Span{a, b}
}
