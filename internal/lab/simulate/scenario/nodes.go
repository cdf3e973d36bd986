package scenario

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

const (
	// mostNodes bounds how many processes share a pool.
	mostNodes = 256
	// mostDelay bounds the way to the store: longer than any grant lasts.
	mostDelay = 10 * time.Second
)

// nodes reads the processes and how far each is from the store.
func (p *parser) nodes(v value) {
	p.index = map[string]int{}
	list, _ := v.Pairs()
	for _, named := range list {
		n := Node{Name: named.Key}
		named.Duration(&n.Delay, 0, mostDelay)
		p.index[n.Name] = len(p.s.Nodes)
		p.s.Nodes = append(p.s.Nodes, n)
	}
	if v.IsMapping() && (len(p.s.Nodes) == 0 || len(p.s.Nodes) > mostNodes) {
		v.Problem("names %d nodes; write 1 to %d, each with its delay to the store", len(p.s.Nodes), mostNodes)
	}
}

// spread reads where a tenant's requests come: a list of nodes, or the part of each.
func (p *parser) spread(v value, into *Spread) {
	if len(p.s.Nodes) == 0 {
		v.Problem("the scenario has no nodes; write nodes: {us-east: 1ms} at the top, or remove the key")
		return
	}
	parts := make([]float64, len(p.s.Nodes))
	switch {
	case v.IsList():
		v.Each(func(v value) {
			i := -1
			if p.node(v, &i); i < 0 {
				return
			}
			if parts[i] > 0 {
				v.Problem("is there twice; remove one")
			}
			parts[i] = 1
		})
	case v.IsMapping():
		readers := map[string]func(value){}
		for name, i := range p.index {
			readers[name] = func(v value) { v.Number(&parts[i], 0, 1) }
		}
		v.Fields(readers)
		if total := sumOf(parts); math.Abs(total-1) > 1e-6 {
			v.Problem("have parts that sum to %g; make them sum to 1", total)
		}
	default:
		v.Problem("is neither a list nor a mapping; write [us-east], or {us-east: 0.1, eu-west: 0.9}")
	}
	if total := sumOf(parts); total > 0 {
		for i := range parts {
			parts[i] /= total
		}
		into.Parts = parts
	} else if v.IsList() && v.Empty() {
		v.Problem("is an empty list; write at least one node")
	}
}

// node reads the name of one.
func (p *parser) node(v value, into *int) {
	if len(p.index) == 0 {
		v.Problem("the scenario has no nodes; write nodes: {us-east: 1ms} at the top")
		return
	}
	strictyaml.OneOf(v, into, p.index)
}

// rotation reads how the parts wander from node to node.
func (p *parser) rotation(v value, into *Spread) {
	if len(p.s.Nodes) == 0 {
		v.Problem("the scenario has no nodes; write nodes: {us-east: 1ms} at the top, or remove the key")
	}
	into.Swing = 1
	there := v.Fields(map[string]func(value){
		"period": func(v value) { v.Duration(&into.Period, time.Second, day) },
		"swing":  func(v value) { v.Number(&into.Swing, 0, 1) },
		"phase":  func(v value) { v.Number(&into.Phase, 0, 1) },
	})
	if _, ok := there["period"]; !ok && v.IsMapping() {
		v.Problem("has no period; write how long one turn takes")
	}
}

func sumOf(parts []float64) float64 {
	total := 0.0
	for _, part := range parts {
		total += part
	}
	return total
}
