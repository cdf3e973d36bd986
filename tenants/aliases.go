package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// plainName matches names that stand for one model.
const plainName = `^[^\s*]+$`

func aliasKind() schema { return strictyaml.MapOf(plainName, strictyaml.TextKind(plainName), 1)() }

// poolModelsKind is a list of names, patterns and aliases, or aliases alone.
func poolModelsKind() schema {
	one := aliasKind()
	one["maxProperties"] = 1
	entry := schema{"anyOf": []any{strictyaml.TextKind(`^\S+$`)(), one}}
	return schema{"anyOf": []any{strictyaml.ListOf(func() schema { return entry }, 1, true)(), aliasKind()}}
}

// readModels reads a pool's models. A refused entry, or a refused list, reads as the model "".
func readModels(v value, p *Pool) {
	if v.IsMapping() {
		list, _ := v.Pairs()
		for i, e := range list {
			v.Report.Places[strictyaml.Item(v.Path, i)] = e.At // checks know the entries by their number
			readAlias(e, p)
		}
		return
	}
	list, ok := v.Items()
	if !ok {
		p.Models = []string{""}
	}
	for _, it := range list {
		if !it.IsMapping() {
			p.Models = append(p.Models, readPattern(it))
			continue
		}
		pairs, ok := it.Pairs()
		if ok && len(pairs) == 1 {
			readAlias(pairs[0], p)
			continue
		}
		if ok {
			it.Problem("has %d aliases; write one per entry, such as {fast: gpt-4o-mini}", len(pairs))
		}
		p.Models = append(p.Models, "")
	}
}

// readAlias reads the other name that p serves a model by.
func readAlias(p pair, into *Pool) {
	a := Alias{Name: p.Key}
	var ok bool
	a.Model, ok = p.Scalar()
	if !ok {
		into.Models = append(into.Models, "")
		return
	}
	if complaint := a.complain(p.Say(a.Model)); complaint != "" {
		p.Problem("%s", complaint)
		into.Models = append(into.Models, "")
		return
	}
	into.Models = append(into.Models, a.Name)
	into.Aliases = append(into.Aliases, a)
}

// complain is the mistake in an alias, of which real is the model as a message shows it.
func (a Alias) complain(real string) string {
	switch {
	case checkPattern(a.Name) != "":
		return "alias " + strictyaml.Show(a.Name) + " " + checkPattern(a.Name)
	case glob.Is(a.Name):
		return "alias " + strictyaml.Show(a.Name) + " is a pattern; an alias is one name"
	case checkPattern(a.Model) != "":
		return real + " " + checkPattern(a.Model)
	case glob.Is(a.Model):
		return real + " is a pattern; an alias leads to one model"
	case a.Name == a.Model:
		return "is an alias of itself; write the name alone"
	}
	return ""
}

// aliases checks that each alias leads to a model, and to one whose calls are counted where its own are.
func (c *compiler) aliases() {
	names := aliasMap(c.cfg.Pools)
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		for _, a := range p.Aliases {
			at, listed := c.routes.exact[a.Model]
			if !listed {
				continue
			}
			path := p.aliasPath(a.Name)
			of := &c.cfg.Pools[at]
			next, again := names[a.Model]
			switch {
			case of != p && p.shares(of):
				c.r.At(path, "alias %s leads to %s, a model of pool %s, whose limits its calls would pass by; write the alias there",
					strictyaml.Show(a.Name), c.r.Shown(path, a.Model), strictyaml.Show(of.Name))
			case of == p && again:
				c.r.At(path, "alias %s leads to %s, which is an alias itself, of %s; write the model", strictyaml.Show(a.Name), c.r.Shown(path, a.Model), strictyaml.Show(next))
			}
		}
	}
}

// aliasPath is where an alias of p is listed.
func (p *Pool) aliasPath(name string) string {
	return strictyaml.Item(strictyaml.Child(strictyaml.Child("pools", p.Name), "models"), slices.Index(p.Models, name))
}

// shares reports whether an upstream serves both pools.
func (p *Pool) shares(o *Pool) bool {
	return slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool {
		return slices.ContainsFunc(o.Upstreams, func(other PoolUpstream) bool { return other.Name == u.Name })
	})
}

// aliasMap leads from the aliases of all pools to the models' own names.
func aliasMap(pools []Pool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		for _, a := range pools[i].Aliases {
			out[a.Name] = a.Model
		}
	}
	return out
}

func sortAliases(list []Alias) {
	slices.SortFunc(list, func(a, b Alias) int { return strings.Compare(a.Name, b.Name) })
}

// RealModel is the upstream's name of a model: the name that an alias leads to, else model itself. It allocates
// nothing.
func (s *Snapshot) RealModel(model string) string {
	if real, ok := s.prices.aliases[model]; ok {
		return real
	}
	return model
}
