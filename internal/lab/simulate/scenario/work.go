package scenario

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
)

// workReaders adds the keys of requests' cost and duration. They stand at the
// top of a file, and again under any tenant that differs.
func workReaders(readers map[string]func(value), w *Work) {
	readers["cost"] = func(v value) { cost(v, w) }
	readers["classes"] = func(v value) { classes(v, &w.Classes) }
	readers["service"] = func(v value) { service(v, &w.Service) }
}

// workContradictions reports keys of one place that cannot both hold.
func workContradictions(there map[string]value, w *Work) {
	if v, ok := there["cost"]; ok {
		if _, both := there["classes"]; both {
			v.Problem("stands beside classes; write one of the two")
		}
	}
	if v, ok := there["service"]; ok && len(w.Classes) > 0 {
		v.Problem("stands beside classes, which say how long a request runs; remove it")
	}
}

// cost is a distribution, or classes inside of it.
func cost(v value, w *Work) {
	inside := value{}
	d := defaultCost()
	readers := d.Readers(distribution.Tokens)
	readers["classes"] = func(v value) { inside = v }
	there := v.Fields(readers)
	if !inside.There() {
		d.Contradictions(v, there)
		w.Cost = d
		return
	}
	classes(inside, &w.Classes)
	if len(there) > 1 {
		inside.Problem("stand beside other keys of cost; write either a distribution or classes")
	}
}

// service is one duration, or a distribution of them.
func service(v value, into *Dist) {
	if v.Empty() {
		var d time.Duration
		v.Duration(&d, 0, day)
		*into = Dist{Mean: d.Seconds(), Max: math.Inf(1)}
		return
	}
	d := Dist{Mean: 1, Sigma: 0.8}
	there := v.Fields(d.Readers(distribution.Seconds))
	if _, ok := there["max"]; !ok && d.Max == 0 {
		d.Max = 10 * d.Mean
	}
	d.Contradictions(v, there)
	*into = d
}

func classes(v value, into *[]Class) {
	var list []Class
	sum := 0.0
	v.Each(func(v value) {
		c := class(v)
		sum += c.Share
		list = append(list, c)
	})
	switch {
	case len(list) == 0:
		v.Problem("name no class; write at least one")
	case len(list) == 1:
		list[0].Share = 1
	case math.Abs(sum-1) > 1e-6:
		v.Problem("have shares that sum to %g; make them sum to 1", sum)
	}
	*into = list
}

func class(v value) Class {
	c := Class{Sigma: 0.8, TokensPerSecond: 60}
	there := v.Fields(map[string]func(value){
		"share":             func(v value) { v.Number(&c.Share, 0, 1) },
		"median":            func(v value) { v.Number(&c.Median, 1, 1e9) },
		"sigma":             func(v value) { v.Number(&c.Sigma, 0, 4) },
		"max":               func(v value) { v.Number(&c.Max, 1, 1e9) },
		"tokens_per_second": func(v value) { v.Number(&c.TokensPerSecond, 0.01, 1e9) },
		"speed_sigma":       func(v value) { v.Number(&c.SpeedSigma, 0, 2) },
		"first_token":       func(v value) { span(v, &c.FirstToken, 0, time.Hour) },
		"input": func(v value) {
			c.Input = Dist{Mean: 1000, Sigma: 0.8, Min: 1, Max: 8000}
			in := v.Fields(c.Input.Readers(distribution.Tokens))
			c.Input.Contradictions(v, in)
		},
	})
	for _, key := range []string{"median", "max"} {
		if _, ok := there[key]; !ok {
			v.Problem("has no %s; write how many output tokens", key)
		}
	}
	if at, ok := there["max"]; ok && c.Max < c.Median {
		at.Problem("%g is below the median of %g; most requests would be cut", c.Max, c.Median)
	}
	return c
}
