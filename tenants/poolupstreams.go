package tenants

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// maxUpstreams is how many upstreams a pool may have.
const maxUpstreams = 64

// maxUpstreamWeight is the largest weight of an upstream in a pool.
const maxUpstreamWeight = 1000

// maxOrder is the largest order of an upstream in a pool.
const maxOrder = 100

// PoolUpstream is one of a pool's upstreams.
type PoolUpstream struct {
	// Name is that of the Upstream.
	Name string
	// Weight is its part of the calls, beside the weights of the others: 1 to 1000. 0 is left out: it becomes that of its TPM beside
	// the others' of its order, if all of these have one and none a Weight, else 1.
	Weight int64
	// Order says who comes first: a call goes to an upstream of the lowest order of which one is ready, there by weight.
	Order int64 `json:",omitempty"`
	// Limits are its own, beside the pool's; it has no Windows.
	terms.Limits
	// Models are the names by which this upstream knows models, by the models' own names, where these differ.
	Models map[string]string `json:",omitempty"`
	// Price is what tokens of any model cost there; nil is the model's price.
	Price *Price `json:",omitempty"`
}

// ModelName is the upstream's name of a model.
func (u *PoolUpstream) ModelName(model string) string {
	if name, ok := u.Models[model]; ok {
		return name
	}
	return model
}

// Renames reports whether an upstream of the pool has a name of its own for a model.
func (p *Pool) Renames(model string) bool {
	return slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return u.ModelName(model) != model })
}

// Renamed lists the models of which an upstream of the pool has a name of its own.
func (p *Pool) Renamed() []string {
	names := map[string]bool{}
	for _, u := range p.Upstreams {
		for model := range u.Models {
			names[model] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// readModelNames reads an upstream's own names of models.
func readModelNames(v value, u *PoolUpstream) {
	list, _ := v.Pairs()
	for _, e := range list {
		name, ok := e.Scalar()
		if !ok {
			continue
		}
		if complaint := complainModelName(e.Key, name, e.Say(name)); complaint != "" {
			e.Problem("%s", complaint)
			continue
		}
		if u.Models == nil {
			u.Models = map[string]string{}
		}
		u.Models[e.Key] = name
	}
}

// complainModelName is the mistake in an upstream's own name of a model, as a message shows it.
func complainModelName(model, name, shown string) string {
	switch {
	case checkPattern(model) != "":
		return "model " + strictyaml.Show(model) + " " + checkPattern(model)
	case glob.Is(model):
		return "model " + strictyaml.Show(model) + " is a pattern; write one name"
	case checkPattern(name) != "":
		return shown + " " + checkPattern(name)
	case glob.Is(name):
		return shown + " is a pattern; write the one name that the upstream has"
	}
	return ""
}

// modelNames checks that upstreams' own names of models are of models of their pools, and lead past no other pool's
// limits.
func (c *compiler) modelNames() {
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		for j := range p.Upstreams {
			u := &p.Upstreams[j]
			path := strictyaml.Child(strictyaml.Item(strictyaml.Child(strictyaml.Child("pools", p.Name), "upstreams"), j), "models")
			for _, model := range slices.Sorted(maps.Keys(u.Models)) {
				c.modelName(p, u, strictyaml.Child(path, model), model)
			}
		}
	}
}

// modelName checks one of these names.
func (c *compiler) modelName(p *Pool, u *PoolUpstream, path, model string) {
	name := u.Models[model]
	alias := slices.IndexFunc(p.Aliases, func(a Alias) bool { return a.Name == model })
	at, listed := c.routes.exact[name]
	switch {
	case alias >= 0:
		c.r.At(path, "%s is an alias of %s; write %s in its place", strictyaml.Show(model), strictyaml.Show(p.Aliases[alias].Model), strictyaml.Show(p.Aliases[alias].Model))
	case !p.has(model):
		c.r.At(path, "%s is no model of pool %s; write one of its models", strictyaml.Show(model), strictyaml.Show(p.Name))
	case listed && at != p.Index && c.cfg.Pools[at].asks(u.Name, name):
		c.r.At(path, "%s is a model of pool %s at this upstream, whose limits its calls would pass by; list %s there", c.r.Shown(path, name),
			strictyaml.Show(c.cfg.Pools[at].Name), strictyaml.Show(model))
	}
}

// has reports whether a model is the pool's by its own name: listed, matched by a pattern, or led to by an alias.
func (p *Pool) has(model string) bool {
	return slices.ContainsFunc(p.Models, func(m string) bool { return m == model || glob.Is(m) && glob.Match(m, model) }) ||
		slices.ContainsFunc(p.Aliases, func(a Alias) bool { return a.Model == model })
}

// asks reports whether the pool calls a model at an upstream by its own name.
func (p *Pool) asks(upstream, model string) bool {
	return slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return u.Name == upstream && u.ModelName(model) == model })
}

// ModelNames lists the names by which the pool's upstreams know a model: its own, if it is the same at all of them, else
// such as "gpt-4o at openai, my-deployment at azure-eu".
func (p *Pool) ModelNames(model string) string {
	if !p.Renames(model) {
		return model
	}
	var names []string
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		names = append(names, u.ModelName(model)+" at "+u.Name)
	}
	return strings.Join(names, ", ")
}

// UpstreamNames lists the names of a pool's upstreams with the weights of several, their own limits and prices, as
// "openai (3), azure-eu (1, tpm 200000, price 0 in, 0 out)", and those of a higher order behind "then".
func (p *Pool) UpstreamNames() string {
	list := slices.Clone(p.Upstreams)
	slices.SortStableFunc(list, func(a, b PoolUpstream) int { return cmp.Compare(a.Order, b.Order) })
	text := ""
	for i := range list {
		u := &list[i]
		switch {
		case i == 0:
		case list[i-1].Order != u.Order:
			text += ", then "
		default:
			text += ", "
		}
		text += u.Name
		var more []string
		if len(list) > 1 {
			more = append(more, strictyaml.SpellDecimal(u.Weight, 0))
		}
		for _, k := range terms.Axes {
			if limit := *u.Amount(k); limit > 0 {
				more = append(more, k.Key()+" "+strictyaml.SpellDecimal(limit, 0))
			}
		}
		if u.Price != nil {
			more = append(more, "price "+strictyaml.SpellDecimal(u.Price.Input, 6)+" in, "+strictyaml.SpellDecimal(u.Price.Output, 6)+" out")
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
	}
	return text
}
