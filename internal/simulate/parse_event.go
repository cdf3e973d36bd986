package simulate

import "time"

// event reads one entry of events.
func (p *parser) event(v value) {
	var e Event
	readers := map[string]func(value){
		"at":          func(v value) { v.span(&e.At, 0, longest) },
		"every":       func(v value) { v.duration(&e.Every, time.Second, longest) },
		"tenant":      func(v value) { p.tenantPath(v, &e.Tenant) },
		"load":        func(v value) { e.Load = new(Load); v.load(e.Load) },
		"cost_factor": func(v value) { v.number(&e.CostFactor, 1e-3, 1e3) },
		"partition":   notYet("partitions are"),
		"for":         func(value) {},
		"crash":       notYet("crashes are"),
	}
	there := v.fields(readers)
	p.s.Events = append(p.s.Events, e)
	has := func(key string) bool { _, ok := there[key]; return ok }
	if has("partition") || has("crash") {
		return
	}
	if at, ok := there["for"]; ok {
		at.problem("has no meaning without partition; remove it")
	}
	if !has("at") {
		v.problem("has no time; write at:")
	} else if e.At.To >= p.s.Duration {
		there["at"].problem("%v is not before the end at %v; move it, or lengthen the run", e.At.To, p.s.Duration)
	}
	switch {
	case has("load") == has("cost_factor"):
		v.problem("needs one of load and cost_factor; write exactly one")
	case has("load") && !has("tenant"):
		v.problem("changes a load and names no tenant; write tenant:")
	}
	if has("every") && e.Every < e.At.To-e.At.From {
		there["every"].problem("%v is shorter than the range of at; events would overtake each other", e.Every)
	}
}

// tenantPath reads the name of a tenant that has a load.
func (p *parser) tenantPath(v value, into *string) {
	text, ok := v.scalar()
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
			v.problem("there is no tenant %s; write a name, or org/team", show(text))
			return
		}
		v.problem("there is no tenant %s; %s", show(text), advise(text, names))
	case !leaf:
		v.problem("%s has teams and no load of its own; name a team, such as %s/…", show(text), text)
	default:
		*into = text
	}
}
