package simulate

import (
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/strictyaml"
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
	p.eachName(v, func(v value, name string) {
		n := Node{Name: name}
		v.Duration(&n.Delay, 0, mostDelay)
		p.index[name] = len(p.s.Nodes)
		p.s.Nodes = append(p.s.Nodes, n)
	})
	if v.Node.Kind == yaml.MappingNode && (len(p.s.Nodes) == 0 || len(p.s.Nodes) > mostNodes) {
		v.Problem("names %d nodes; write 1 to %d, each with its delay to the store", len(p.s.Nodes), mostNodes)
	}
}

// eachName reads a mapping whose keys are names.
func (p *parser) eachName(v value, read func(v value, name string)) {
	readers := map[string]func(value){}
	if v.Node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(v.Node.Content); i += 2 {
			name := v.Node.Content[i].Value
			readers[name] = func(v value) { read(v, name) }
		}
	}
	v.Fields(readers)
}

// spread reads where a tenant's requests come: a list of nodes, or the part of each.
func (p *parser) spread(v value, into *Spread) {
	if len(p.s.Nodes) == 0 {
		v.Problem("the scenario has no nodes; write nodes: {us-east: 1ms} at the top, or remove the key")
		return
	}
	parts := make([]float64, len(p.s.Nodes))
	switch v.Node.Kind {
	case yaml.SequenceNode:
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
	case yaml.MappingNode:
		readers := map[string]func(value){}
		for name, i := range p.index {
			readers[name] = func(v value) { v.Number(&parts[i], 0, 1) }
		}
		v.Fields(readers)
		if s := sum(parts); math.Abs(s-1) > 1e-6 {
			v.Problem("have parts that sum to %g; make them sum to 1", s)
		}
	default:
		v.Problem("is neither a list nor a mapping; write [us-east], or {us-east: 0.1, eu-west: 0.9}")
	}
	if s := sum(parts); s > 0 {
		for i := range parts {
			parts[i] /= s
		}
		into.Parts = parts
	} else if v.Node.Kind == yaml.SequenceNode && len(v.Node.Content) == 0 {
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
	if _, ok := there["period"]; !ok && v.Node.Kind == yaml.MappingNode {
		v.Problem("has no period; write how long one turn takes")
	}
}
