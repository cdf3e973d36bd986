package litellm

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// group makes a model group of LiteLLM, all deployments of one model_name, a model of a pool.
func (c *converter) group(list []deployment) {
	list = c.unambiguous(list)
	first := list[0]
	name := first.alias.text()
	real := nameOf(list)
	if name != real && !canBeAlias(name, real) {
		first.alias.differs("cannot be renamed: callers must use the provider's name, %q", real)
		name = real
	}
	own := pool{name: name, amounts: sumOf(list)}
	for _, d := range list {
		m := member{name: c.have(d.up)}
		if d.real != real && canBeAlias(name, real) {
			m.models = map[string]string{real: d.real}
		}
		own.upstreams = append(own.upstreams, m)
		own.ownServers = own.ownServers || d.provider.own || d.provider.kind == tenants.Anthropic
	}
	share(own.upstreams, list)
	line(own.upstreams, list)
	own.merge(list)
	if !c.place(first.model, own, name, real) {
		for _, d := range list {
			d.item.takeAll()
		}
		return
	}
	if !slices.ContainsFunc(list, func(d deployment) bool { return d.provider.kind != tenants.Anthropic }) {
		first.model.differs("callers reach it by /v1/messages alone; LiteLLM translated other routes for it")
	}
	c.names[first.alias.text()] = name
	for _, d := range list {
		c.describe(name, d)
	}
}

// unambiguous leaves out deployments that call the model by another name than an earlier one of the same upstream: there
// it has one. If upstreams cannot have names of their own for it, because it is a pattern, it leaves out all but those of
// the name that most have.
func (c *converter) unambiguous(list []deployment) []deployment {
	best := nameOf(list)
	apart := slices.ContainsFunc(list, func(d deployment) bool { return !canBeAlias(d.alias.text(), d.real) })
	at := map[string]string{}
	return slices.DeleteFunc(list, func(d deployment) bool {
		up := c.have(d.up)
		if at[up] == "" && !(apart && d.real != best) {
			at[up] = d.real
		}
		if at[up] == d.real {
			return false
		}
		kept := cmp.Or(at[up], best)
		d.model.lost("%q is %q here and %q elsewhere, which one upstream or pattern cannot have: this deployment and its limits are left out; "+
			"to have it, call it %q at the provider too, and add it to the pool's upstreams", d.alias.text(), d.real, kept, kept)
		d.item.takeAll()
		return true
	})
}

// nameOf is the pool's name of the model that deployments serve: the callers' name, if one of them calls it so. Otherwise it
// is the name that most have; but the names of Azure's deployments are the customer's own, so if only these are there and
// disagree, it is the callers' name, and each upstream has its own for it.
func nameOf(list []deployment) string {
	name := list[0].alias.text()
	if slices.ContainsFunc(list, func(d deployment) bool { return d.real == name }) {
		return name
	}
	public := slices.DeleteFunc(slices.Clone(list), func(d deployment) bool { return d.provider.kind == tenants.Azure })
	if len(public) > 0 {
		return commonest(public)
	}
	disagree := slices.ContainsFunc(list, func(d deployment) bool { return d.real != list[0].real })
	unnamed := slices.ContainsFunc(list, func(d deployment) bool { return !canBeAlias(name, d.real) })
	if disagree && !unnamed {
		return name
	}
	return commonest(list)
}

// commonest is the name by which most deployments know the model, or the first of as many.
func commonest(list []deployment) string {
	count := map[string]int{}
	best := list[0].real
	for _, d := range list {
		count[d.real]++
	}
	for _, d := range list {
		if count[d.real] > count[best] {
			best = d.real
		}
	}
	return best
}

// sumOf are the limits of all together: those that each has, added up.
func sumOf(list []deployment) amounts {
	sum := list[0].limits
	for _, d := range list[1:] {
		sum = amounts{both(sum.tpm, d.limits.tpm), both(sum.rpm, d.limits.rpm), both(sum.concurrency, d.limits.concurrency)}
	}
	for _, l := range []struct {
		key string
		sum int64
		of  func(amounts) int64
	}{
		{"tpm", sum.tpm, func(a amounts) int64 { return a.tpm }},
		{"rpm", sum.rpm, func(a amounts) int64 { return a.rpm }},
		{"max_parallel_requests", sum.concurrency, func(a amounts) int64 { return a.concurrency }},
	} {
		for _, d := range list {
			if l.sum == 0 && l.of(d.limits) > 0 {
				d.model.lost("has %s, which not all deployments of %q have, so all together have none", l.key, d.alias.text())
			}
		}
	}
	return sum
}

// share sets weights: those of the deployments, or their rpm, or their tpm, whichever all of them have.
func share(members []member, list []deployment) {
	for _, of := range []func(deployment) *big.Rat{
		func(d deployment) *big.Rat { return d.weight },
		func(d deployment) *big.Rat { return positive(d.limits.rpm) },
		func(d deployment) *big.Rat { return positive(d.limits.tpm) },
	} {
		var parts []*big.Rat
		for _, d := range list {
			if part := of(d); part != nil {
				parts = append(parts, part)
			}
		}
		if len(parts) == len(list) {
			for i, w := range whole(parts) {
				members[i].weight = w
			}
			return
		}
	}
	for i, d := range list {
		members[i].weight = 1
		if d.weight != nil {
			d.params.get("weight").differs("not all deployments of %q have one, so all count alike", d.alias.text())
		}
	}
}

// line gives members the orders of their deployments. A deployment without an order comes behind all others.
func line(members []member, list []deployment) {
	last := int64(0)
	for _, d := range list {
		last = max(last, d.order)
	}
	if last >= maxOrder {
		list[0].model.differs("an order of %q is %d or more; they are left out, so its upstreams go by weight", list[0].alias.text(), maxOrder)
		return
	}
	for i, d := range list {
		members[i].order = d.order
		if d.order == 0 && last > 0 {
			members[i].order = last + 1
		}
	}
}

// maxOrder is the largest order of an upstream.
const maxOrder = 100

func positive(n int64) *big.Rat {
	if n == 0 {
		return nil
	}
	return big.NewRat(n, 1)
}

// weightOf reads a weight, nil when there is none.
func weightOf(n node) *big.Rat {
	if n.text() == "" {
		return nil
	}
	r, ok := new(big.Rat).SetString(n.text())
	if !ok || r.Sign() <= 0 {
		n.differs("is not a weight above 0, and is ignored")
		return nil
	}
	return r
}

// maxWeight is the largest weight of an upstream.
const maxWeight = 1000

// whole makes whole numbers from 1 to maxWeight of parts, in the same proportions as far as that goes.
func whole(parts []*big.Rat) []int64 {
	most := slices.MaxFunc(parts, (*big.Rat).Cmp)
	common := big.NewInt(1) // of the denominators
	for _, p := range parts {
		g := new(big.Int).GCD(nil, nil, common, p.Denom())
		common.Mul(common, new(big.Int).Div(p.Denom(), g))
	}
	divisor := new(big.Int)
	for _, p := range parts {
		divisor.GCD(nil, nil, divisor, new(big.Int).Div(new(big.Int).Mul(p.Num(), common), p.Denom()))
	}
	scale := new(big.Rat).SetFrac(common, divisor)
	if new(big.Rat).Mul(most, scale).Cmp(big.NewRat(maxWeight, 1)) > 0 {
		scale.Quo(big.NewRat(maxWeight, 1), most)
	}
	out := make([]int64, len(parts))
	for i, p := range parts {
		rounded, _ := new(big.Rat).SetString(new(big.Rat).Mul(p, scale).FloatString(0))
		out[i] = max(rounded.Num().Int64(), 1)
	}
	return out
}

// merge makes one of members that are the same upstream.
func (p *pool) merge(list []deployment) {
	var once []member
	for i, m := range p.upstreams {
		at := slices.IndexFunc(once, func(o member) bool { return o.name == m.name })
		if at < 0 {
			once = append(once, m)
			continue
		}
		once[at].weight = min(once[at].weight+m.weight, maxWeight)
		once[at].order = min(once[at].order, m.order)
		list[i].model.differs("%q is there twice with the same upstream: limits that both have are added up", list[i].real)
	}
	if len(once) == 1 {
		once[0].weight = 1
		once[0].order = 0
	}
	p.upstreams = once
}

// aliases reads other names for model groups.
func (c *converter) aliases(n node) {
	list, names := n.pairs()
	for i, it := range list {
		it.tree.taken[it.val] = true
		target := it.text()
		asked := names[i]
		if target == "" {
			target = it.get("model").text()
		}
		name, known := c.names[target]
		_, served := c.reals[asked]
		switch {
		case !known:
			it.lost("no model of the name %q was imported, so it is left out", target)
		case served:
			it.lost("%q is a model already, so it is left out", asked)
		case !canBeAlias(asked, c.reals[name]):
			it.lost("cannot be renamed, so it is left out")
		default:
			c.serve(c.poolOf(name), asked, c.reals[name])
			c.names[asked] = asked
			c.granting[target] = append(c.granting[target], asked)
			if p, priced := c.prices[name]; priced {
				c.prices[asked] = p
			}
		}
	}
}

// key are the names of a pool's upstreams.
func (p *pool) key() string {
	var names []string
	for _, m := range p.upstreams {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
