package simulate

import (
	"math"
	"time"
)

// workReaders adds the keys that say what requests are like. They stand at the
// top of a file, and again under any tenant that differs.
func workReaders(readers map[string]func(value), w *Work) {
	readers["cost"] = func(v value) { v.cost(w) }
	readers["classes"] = func(v value) { v.classes(&w.Classes) }
	readers["service"] = func(v value) { v.service(&w.Service) }
}

// workContradictions reports keys of one place that cannot both hold.
func workContradictions(there map[string]value, w *Work) {
	if v, ok := there["cost"]; ok {
		if _, both := there["classes"]; both {
			v.problem("stands beside classes; write one of the two")
		}
	}
	if v, ok := there["service"]; ok && len(w.Classes) > 0 {
		v.problem("stands beside classes, which say how long a request runs; remove it")
	}
}

// cost is a distribution, or classes inside of it.
func (v value) cost(w *Work) {
	inside := value{}
	d := defaultCost()
	readers := distReaders(&d, tokens)
	readers["classes"] = func(v value) { inside = v }
	there := v.fields(readers)
	if inside.node == nil {
		v.distContradictions(there, d)
		w.Cost = d
		return
	}
	inside.classes(&w.Classes)
	if len(there) > 1 {
		inside.problem("stand beside other keys of cost; write either a distribution or classes")
	}
}

// unit says how a distribution's numbers are written.
type unit int

const (
	tokens unit = iota
	seconds
)

func (u unit) read(v value, into *float64) {
	if u == tokens {
		v.number(into, 1, 1e9)
		return
	}
	d := time.Duration(*into * float64(time.Second))
	v.duration(&d, time.Millisecond, day)
	*into = d.Seconds()
}

func distReaders(d *Dist, u unit) map[string]func(value) {
	return map[string]func(value){
		"dist": func(v value) {
			constant := false
			oneOf(v, &constant, map[string]bool{"lognormal": false, "constant": true})
			if constant {
				d.Sigma, d.Min, d.Max = 0, 0, math.Inf(1)
			}
		},
		"mean":  func(v value) { u.read(v, &d.Mean) },
		"sigma": func(v value) { v.number(&d.Sigma, 0, 4) },
		"min":   func(v value) { u.read(v, &d.Min) },
		"max":   func(v value) { u.read(v, &d.Max) },
	}
}

func (v value) distContradictions(there map[string]value, d Dist) {
	if kind, ok := there["dist"]; ok && kind.node.Value == "constant" {
		for _, key := range []string{"sigma", "min", "max"} {
			if at, ok := there[key]; ok {
				at.problem("has no meaning for a constant; remove it, or write dist: lognormal")
			}
		}
		return
	}
	if d.Mean > d.Max || d.Mean < d.Min {
		v.problem("a mean of %g lies outside of min %g and max %g; move one of them", d.Mean, d.Min, d.Max)
	}
}

// service is one duration, or a distribution of them.
func (v value) service(into *Dist) {
	if len(v.node.Content) == 0 {
		var d time.Duration
		v.duration(&d, 0, day)
		*into = Dist{Mean: d.Seconds(), Max: math.Inf(1)}
		return
	}
	d := Dist{Mean: 1, Sigma: 0.8}
	there := v.fields(distReaders(&d, seconds))
	if _, ok := there["max"]; !ok && d.Max == 0 {
		d.Max = 10 * d.Mean
	}
	v.distContradictions(there, d)
	*into = d
}

func (v value) classes(into *[]Class) {
	var list []Class
	sum := 0.0
	v.each(func(v value) {
		c := v.class()
		sum += c.Share
		list = append(list, c)
	})
	switch {
	case len(list) == 0:
		v.problem("name no class; write at least one")
	case len(list) == 1:
		list[0].Share = 1
	case math.Abs(sum-1) > 1e-6:
		v.problem("have shares that sum to %g; make them sum to 1", sum)
	}
	*into = list
}

func (v value) class() Class {
	c := Class{Sigma: 0.8, TokensPerSecond: 60}
	there := v.fields(map[string]func(value){
		"share":             func(v value) { v.number(&c.Share, 0, 1) },
		"median":            func(v value) { v.number(&c.Median, 1, 1e9) },
		"sigma":             func(v value) { v.number(&c.Sigma, 0, 4) },
		"max":               func(v value) { v.number(&c.Max, 1, 1e9) },
		"tokens_per_second": func(v value) { v.number(&c.TokensPerSecond, 0.01, 1e9) },
		"speed_sigma":       func(v value) { v.number(&c.SpeedSigma, 0, 2) },
		"first_token":       func(v value) { v.span(&c.FirstToken, 0, time.Hour) },
		"input": func(v value) {
			c.Input = Dist{Mean: 1000, Sigma: 0.8, Min: 1, Max: 8000}
			in := v.fields(distReaders(&c.Input, tokens))
			v.distContradictions(in, c.Input)
		},
	})
	for _, key := range []string{"median", "max"} {
		if _, ok := there[key]; !ok {
			v.problem("has no %s; write how many output tokens", key)
		}
	}
	if at, ok := there["max"]; ok && c.Max < c.Median {
		at.problem("%g is below the median of %g; most requests would be cut", c.Max, c.Median)
	}
	return c
}
