// Package distribution has the distributions that traffic is drawn from: one number for
// all calls, or a lognormal law, as of the lengths of prompts and answers. It reads them
// from files, and draws from a given source.
package distribution

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Distribution is a distribution of positive numbers.
type Distribution struct {
	// Mean is the mean of the whole law, before it is cut to Min … Max.
	Mean, Sigma, Min, Max float64
}

// Constant always draws x.
func Constant(x float64) Distribution { return Distribution{Mean: x, Max: math.Inf(1)} }

// Zero reports whether the distribution is unset.
func (d Distribution) Zero() bool { return d.Mean == 0 }

// Draw takes one sample, as if the law were scaled by factor.
func (d Distribution) Draw(rng *rand.Rand, factor float64) float64 {
	mean := d.Mean * factor
	if d.Sigma > 0 {
		mean = math.Exp(math.Log(mean) - d.Sigma*d.Sigma/2 + d.Sigma*rng.NormFloat64())
	}
	return min(max(mean, d.Min), d.Max)
}

// Unit is the form of a distribution's numbers in files.
type Unit int

const (
	// Tokens are plain numbers from 1 on.
	Tokens Unit = iota
	// Seconds are written as durations.
	Seconds
)

func (u Unit) read(v strictyaml.Value, into *float64) {
	if u == Tokens {
		v.Number(into, 1, 1e9)
		return
	}
	d := time.Duration(*into * float64(time.Second))
	v.Duration(&d, time.Millisecond, 24*time.Hour)
	*into = d.Seconds()
}

// Readers read the keys of a distribution.
func (d *Distribution) Readers(u Unit) map[string]func(strictyaml.Value) {
	return map[string]func(strictyaml.Value){
		"dist": func(v strictyaml.Value) {
			constant := false
			strictyaml.OneOf(v, &constant, map[string]bool{"lognormal": false, "constant": true})
			if constant {
				d.Sigma = 0
				d.Min = 0
				d.Max = math.Inf(1)
			}
		},
		"mean":  func(v strictyaml.Value) { u.read(v, &d.Mean) },
		"sigma": func(v strictyaml.Value) { v.Number(&d.Sigma, 0, 4) },
		"min":   func(v strictyaml.Value) { u.read(v, &d.Min) },
		"max":   func(v strictyaml.Value) { u.read(v, &d.Max) },
	}
}

// Contradictions reports keys of one distribution that cannot all hold.
func (d Distribution) Contradictions(v strictyaml.Value, there map[string]strictyaml.Value) {
	if kind, ok := there["dist"]; ok && kind.Raw() == "constant" {
		for _, key := range []string{"sigma", "min", "max"} {
			if at, ok := there[key]; ok {
				at.Problem("has no meaning for a constant; remove it, or write dist: lognormal")
			}
		}
		return
	}
	if d.Mean > d.Max || d.Mean < d.Min {
		v.Problem("a mean of %g lies outside of min %g and max %g; move one of them", d.Mean, d.Min, d.Max)
	}
}
