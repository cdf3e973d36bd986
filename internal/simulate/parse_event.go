package simulate

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// event reads one entry of events.
func (p *parser) event(v value) {
	var e Event
	readers := map[string]func(value){
		"at":          func(v value) { span(v, &e.At, 0, longest) },
		"every":       func(v value) { v.Duration(&e.Every, time.Second, longest) },
		"tenant":      func(v value) { p.tenantPath(v, &e.Tenant) },
		"load":        func(v value) { e.Load = new(Load); load(v, e.Load) },
		"cost_factor": func(v value) { v.Number(&e.CostFactor, 1e-3, 1e3) },
		"partition":   notYet("partitions are"),
		"for":         func(value) {},
		"crash":       notYet("crashes are"),
	}
	there := v.Fields(readers)
	p.s.Events = append(p.s.Events, e)
	has := func(key string) bool { _, ok := there[key]; return ok }
	if has("partition") || has("crash") {
		return
	}
	if at, ok := there["for"]; ok {
		at.Problem("has no meaning without partition; remove it")
	}
	if !has("at") {
		v.Problem("has no time; write at:")
	} else if e.At.To >= p.s.Duration {
		there["at"].Problem("%v is not before the end at %v; move it, or lengthen the run", e.At.To, p.s.Duration)
	}
	switch {
	case has("load") == has("cost_factor"):
		v.Problem("needs one of load and cost_factor; write exactly one")
	case has("load") && !has("tenant"):
		v.Problem("changes a load and names no tenant; write tenant:")
	}
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
		if b, ok = v.ParseDuration(to, least, most); !ok {
			return
		}
	}
	if b < a {
		v.Problem("%s ends before it begins; write the earlier time first", strictyaml.Show(text))
		return
	}
	*into = Span{a, b}
}
