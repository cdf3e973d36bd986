package tokens

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Estimator turns the sizes of prompts into tokens by ratios per model, learned
// from what upstream reports. It is safe for concurrent use; Estimate takes no
// lock, and allocates nothing for a known model.
//
// An Estimator may have a parent, which it asks about models that it has learned
// nothing of, and which learns along. So what one tenant sends cannot spoil
// another's estimates, and who is new need not start from nothing.
//
// The zero Estimator has learned nothing, and has no parent. It can be part of something larger.
type Estimator struct {
	parent *Estimator
	// recent is the model of the last report. Most tenants use one, and in between their data leaves the processor's cache:
	// a map is three places in memory on the way to the model, and this is none.
	recent atomic.Pointer[model]
	// models is read by every call, and replaced as a whole when a model is added.
	models atomic.Pointer[map[string]*model]

	mu    sync.Mutex // guards what is learned: it is read without, and written with it
	other model      // beyond maxModels
}

// maxModels bounds what is learned apart: model names come from callers.
const maxModels = 1024

// model is what is known of the prompts of one model.
type model struct {
	name string // "" of those beyond maxModels
	// beyond is how many tokens prompts of text have on average beyond what their text explains.
	beyond atomic.Int64
	// doubted is how often Uncertain was answered with yes.
	doubted atomic.Int64
	ratios  [kinds]ratio
}

// ratio is tokens per Scale units of weight, in millionths.
type ratio struct {
	ppm  atomic.Int64 // 0 = nothing learned yet
	seen atomic.Int64
}

// A ratio of text outside of minRatio and maxRatio says nothing about the model's tokenizer: the
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

// least are the smallest ratios that are believed, by kind. What is weighed by its length could
// otherwise be made to weigh nothing: by many documents without text, and then one full of it.
var least = [kinds]int64{Text: minRatio, Image: unit / 32, Sound: minRatio, Document: minRatio, Elsewhere: unit / 256}

// maxFileRatio is the largest of what is no text: how many tokens that has is known by its kind alone.
const maxFileRatio = unit * 256

// NewEstimator returns an Estimator that has learned nothing. parent may be nil.
func NewEstimator(parent *Estimator) *Estimator {
	return &Estimator{parent: parent}
}

// Inherit gives e a parent, before it is used.
func (e *Estimator) Inherit(parent *Estimator) { e.parent = parent }

// Estimate is how many tokens a prompt of that size has for a model; at least 1, rounded up.
func (e *Estimator) Estimate(name string, s Size) int64 {
	n := int64(0)
	for k := range s {
		if s[k] > 0 {
			n += estimate(s[k], e.ratio(name, Kind(k)))
		}
	}
	if own := e.find(name); own != nil {
		n += own.beyond.Load()
	}
	return max(1, n)
}

// ratio is what was learned of a kind, here or by a parent.
func (e *Estimator) ratio(name string, k Kind) int64 {
	for at := e; at != nil; at = at.parent {
		if m := at.find(name); m != nil {
			if ppm := m.ratios[k].ppm.Load(); ppm > 0 {
				return ppm
			}
		}
	}
	return unit
}

// Uncertain reports whether it pays to count a model's next prompt, which costs far more
// than to estimate it: while few reports have come to this estimator itself. What others
// send says little: prose, code and other scripts lie apart by a factor of two. It asks
// for a bounded number of counts a model.
func (e *Estimator) Uncertain(name string) bool {
	m := e.known(name)
	return m.ratios[Text].seen.Load() < sure && m.doubted.Load() < maxDoubts && m.doubted.Add(1) <= maxDoubts
}

// estimate stays exact to a weight of 2⁴³ at the largest ratio of text.
func estimate(weight, ppm int64) int64 {
	whole := weight / Scale
	rest := weight % Scale
	return (whole*ppm + rest*ppm/Scale + unit - 1) / unit
}

// Observe learns that a prompt of that size had so many tokens. Small prompts
// teach little, for the overhead of their JSON is most of them; still they
// count, since callers who send them are judged by them.
func (e *Estimator) Observe(name string, s Size, actual int64) { e.observe(name, s, actual, e.parent) }

// ObserveAlone is Observe, from which the parent learns nothing.
func (e *Estimator) ObserveAlone(name string, s Size, actual int64) { e.observe(name, s, actual, nil) }

func (e *Estimator) observe(name string, s Size, actual int64, parent *Estimator) {
	if actual < 1 {
		return
	}
	if s.Weight() > s[Text] {
		e.observeFiles(name, s, actual, parent)
		return
	}
	e.observeText(name, s[Text], actual, parent)
}

// observeText learns from a prompt that is all text. Tokens beyond what any text has are hidden
// from this gateway. They will be there again in calls like this one, so they are estimated to be:
// not in proportion to a text that has nothing to do with them, and for nobody but this tenant.
func (e *Estimator) observeText(name string, weight, actual int64, parent *Estimator) {
	if weight < Scale {
		return
	}
	sample := share(actual, weight)
	believed := minRatio <= sample && sample <= maxRatio
	if believed && parent != nil {
		parent.observeText(name, weight, actual, parent.parent)
	}
	m := e.known(name)
	if e.recent.Load() != m && m != &e.other {
		e.recent.Store(m)
	}
	text := &m.ratios[Text]
	hidden := max(0, actual-estimate(weight, maxRatio))
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(text.seen.Load()+1, memory)
	m.beyond.Store(toward(m.beyond.Load(), hidden, n))
	if believed {
		text.averageLocked(sample)
	}
}

// observeFiles learns from a prompt that is not all text. How long its text is is believed to be
// known; what is left is divided among the files as it was estimated.
func (e *Estimator) observeFiles(name string, s Size, actual int64, parent *Estimator) {
	text := estimate(s[Text], e.ratio(name, Text))
	s[Text] = 0
	left := max(0, actual-text)
	guess := int64(0)
	var ratios [kinds]int64
	for k := range s {
		ratios[k] = e.ratio(name, Kind(k))
		guess += estimate(s[k], ratios[k])
	}
	if left < guess && guess < text/2 {
		return // it may as well be the text that is shorter than it was believed to be
	}
	m := e.known(name)
	e.mu.Lock()
	for k := range s {
		if s[k] > 0 {
			sample := int64(float64(ratios[k]) * float64(left) / float64(max(1, guess)))
			m.ratios[k].averageLocked(min(max(sample, least[k]), maxFileRatio))
		}
	}
	e.mu.Unlock()
	if parent != nil && left <= estimate(s.Weight(), maxRatio) {
		parent.observeFiles(name, s, left, parent.parent)
	}
}

// share is tokens per Scale units of weight, in millionths.
func share(actual, weight int64) int64 {
	return int64(float64(actual) * Scale / float64(weight) * unit)
}

// averageLocked takes a sample into a ratio.
func (r *ratio) averageLocked(sample int64) {
	n := min(r.seen.Add(1), memory)
	r.ppm.Store(toward(r.ppm.Load(), sample, n))
}

// toward moves an average to a sample that is one of n. It arrives, too, where the steps become
// smaller than one.
func toward(old, sample, n int64) int64 {
	step := (sample - old) / n
	if step == 0 {
		return sample
	}
	return old + step
}

func (e *Estimator) find(name string) *model {
	if m := e.recent.Load(); m != nil && m.name == name {
		return m
	}
	models := e.all()
	if m := models[name]; m != nil {
		return m
	}
	if len(models) >= maxModels {
		return &e.other
	}
	return nil
}

// known is what is known of a model, which it makes room for.
func (e *Estimator) known(name string) *model {
	if m := e.find(name); m != nil {
		return m
	}
	return e.learn(name)
}

func (e *Estimator) learn(name string) *model {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.find(name); m != nil {
		return m
	}
	m := &model{name: name}
	if e.parent != nil {
		if known := e.parent.find(name); known != nil && known.name == name {
			m.name = known.name // one copy of the name stays in the cache, where one for each tenant does not
		}
	}
	models := map[string]*model{m.name: m}
	maps.Copy(models, e.all())
	e.models.Store(&models)
	return m
}

// all are the models that are known.
func (e *Estimator) all() map[string]*model {
	if models := e.models.Load(); models != nil {
		return *models
	}
	return nil
}
