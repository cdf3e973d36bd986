package tokens

import (
	"sync"
	"sync/atomic"
)

// Estimator turns weighed prompts into tokens by a ratio per model, learned
// from what upstream reports. It is safe for concurrent use; Estimate takes no
// lock that Observe holds for long, and allocates nothing for a known model.
//
// An Estimator may have a parent, which it asks about models that it has learned
// nothing of, and which learns along. So what one tenant sends cannot spoil
// another's estimates, and who is new need not start from nothing.
type Estimator struct {
	parent *Estimator
	mu     sync.RWMutex
	models map[string]*ratio
	other  ratio // beyond maxModels
}

// maxModels bounds what is learned apart: model names come from callers.
const maxModels = 1024

// ratio is tokens per Scale units of weight, in millionths.
type ratio struct {
	ppm  atomic.Int64 // 0 = nothing learned yet
	seen atomic.Int64
	// doubted is how often Uncertain was answered with yes.
	doubted atomic.Int64
}

// A ratio outside these bounds says nothing about the model's tokenizer: the
// prompt lies elsewhere, as in a conversation that the server keeps.
const (
	unit     = 1_000_000
	minRatio = unit / 8
	maxRatio = unit * 8
	// memory is how many reports the moving average spans once it has settled.
	memory = 32
	// sure is how many reports of its own an estimate is trusted after, and maxDoubts how
	// often it is doubted at most, as where reports say nothing or never come.
	sure      = 8
	maxDoubts = 64
)

// NewEstimator returns an Estimator that has learned nothing. parent may be nil.
func NewEstimator(parent *Estimator) *Estimator {
	return &Estimator{parent: parent, models: make(map[string]*ratio)}
}

// Estimate is how many tokens a prompt of that weight has for a model; at
// least 1, rounded up.
func (e *Estimator) Estimate(model string, weight int64) int64 {
	ppm := int64(unit)
	for at := e; at != nil; at = at.parent {
		if r := at.find(model); r != nil && r.ppm.Load() > 0 {
			ppm = r.ppm.Load()
			break
		}
	}
	return max(1, estimate(weight, ppm))
}

// Uncertain reports whether it pays to count a model's next prompt, which costs far more
// than to estimate it: while few reports have come to this estimator itself. What others
// send says little: prose, code and other scripts lie apart by a factor of two. It asks
// for a bounded number of counts a model.
func (e *Estimator) Uncertain(model string) bool {
	r := e.find(model)
	if r == nil {
		r = e.learn(model)
	}
	return r.seen.Load() < sure && r.doubted.Load() < maxDoubts && r.doubted.Add(1) <= maxDoubts
}

// estimate stays exact to a weight of 2⁴³ at the largest ratio.
func estimate(weight, ppm int64) int64 {
	whole, rest := weight/Scale, weight%Scale
	return (whole*ppm + rest*ppm/Scale + unit - 1) / unit
}

// Observe learns that a prompt of that weight had so many tokens. Small prompts
// teach little, for the overhead of their JSON is most of them; still they
// count, since callers who send them are judged by them.
func (e *Estimator) Observe(model string, weight, actual int64) {
	if weight < Scale || actual < 1 {
		return
	}
	sample := int64(float64(actual) * Scale / float64(weight) * unit)
	if sample < minRatio || sample > maxRatio {
		return
	}
	if e.parent != nil {
		e.parent.Observe(model, weight, actual)
	}
	r := e.find(model)
	if r == nil {
		r = e.learn(model)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(r.seen.Add(1), memory)
	old := r.ppm.Load()
	r.ppm.Store(old + (sample-old)/n)
}

func (e *Estimator) find(model string) *ratio {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if r := e.models[model]; r != nil {
		return r
	}
	if len(e.models) >= maxModels {
		return &e.other
	}
	return nil
}

func (e *Estimator) learn(model string) *ratio {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.models[model]; r != nil {
		return r
	}
	if len(e.models) >= maxModels {
		return &e.other
	}
	r := &ratio{}
	e.models[model] = r
	return r
}
