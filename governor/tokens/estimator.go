package tokens

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Estimator turns the sizes of prompts into tokens by ratios per model, learned
// from what upstream reports. It is safe for concurrent use; Estimate takes no
// lock, and allocates nothing for a model of which it has reports.
//
// What a caller sends decides what is learned, so a ratio rises at once and sinks slowly, and
// no ratio makes less of a text than its characters have for sure. Texts of letters, of digits and of other scripts differ by
// a factor of three and more, so each text goes by the ratio of the class that it mostly consists of. What one tenant sends spoils
// nobody else's estimates: who is new starts from the median of all (Peers).
//
// The zero Estimator has learned nothing, and has no peers. It can be part of something larger.
type Estimator struct {
	peers  *Peers
	evenly bool
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
	// beyond is how many tokens prompts of text have beyond what their text explains.
	beyond level
	// reported counts reports on prompts of text, and doubted how often Uncertain was answered with yes.
	reported, doubted atomic.Int64
	ratios            [kinds]level // tokens per Scale units of weight, in millionths; of texts, by the class that they mostly consist of
}

const (
	unit     = 1_000_000
	minRatio = unit / 8
	// maxRatio is the largest ratio of text: beyond it, the prompt lies elsewhere, as in a conversation that the server keeps.
	maxRatio = unit * 8
	// maxFileRatio is the largest of what is no text: how many tokens that has is known by its kind alone.
	maxFileRatio = unit * 256
	// sure is how many reports of its own an estimate is trusted after, and maxDoubts how
	// often it is doubted at most, as where reports say nothing or never come.
	sure      = 8
	maxDoubts = 64
)

// believed are the smallest and the largest ratios that are believed, by kind. What is weighed by its length could
// otherwise be made to weigh nothing: by many documents without text, and then one full of it.
var believed = func() (r [kinds]struct{ least, most int64 }) {
	for k := range r {
		r[k].least = minRatio
		r[k].most = maxFileRatio
	}
	for _, k := range classes {
		r[k].most = maxRatio
	}
	r[Image].least = unit / 32
	r[Elsewhere].least = unit / 256
	return r
}()

// NewEstimator returns an Estimator that has learned nothing. peers may be nil.
func NewEstimator(peers *Peers) *Estimator { return &Estimator{peers: peers} }

// Follow gives e peers, before it is used.
func (e *Estimator) Follow(peers *Peers) { e.peers = peers }

// Evenly makes averages of all that e learns, before it is used: for what is charged, and not held.
func (e *Estimator) Evenly() { e.evenly = true }

// Estimate is how many tokens a prompt of that size has for a model; at least 1, rounded up.
func (e *Estimator) Estimate(name string, s Size) int64 {
	own := e.find(name)
	return max(1, e.text(own, name, s)+e.beside(own, name, s))
}

// beside is how many tokens there are beside the text.
func (e *Estimator) beside(own *model, name string, s Size) (n int64) {
	for k := Image; k <= Elsewhere; k++ {
		if s[k] > 0 {
			n += estimate(s[k], e.ratio(own, name, k))
		}
	}
	if own != nil {
		n += own.beyond.value.Load()
	}
	return n
}

// text is how many tokens the text has.
func (e *Estimator) text(own *model, name string, s Size) int64 {
	w := s.Text()
	if w == 0 {
		return 0
	}
	n := estimate(w, e.ratio(own, name, s.mostly()))
	if e.evenly {
		return n
	}
	return max(n, estimate(s.sure(), unit))
}

// ratio is what was learned of a kind, here or by the peers.
func (e *Estimator) ratio(own *model, name string, k Kind) int64 {
	return cmp.Or(e.learned(own, name, k), unit)
}

// learned is such a ratio, or 0 if nothing was learned.
func (e *Estimator) learned(own *model, name string, k Kind) int64 {
	if own != nil {
		if ppm := own.ratios[k].value.Load(); ppm > 0 {
			return ppm
		}
	}
	return e.peers.ratio(name, k)
}

// Knows reports whether anything was learned of a kind, here or by the peers.
func (e *Estimator) Knows(name string, k Kind) bool { return e.learned(e.find(name), name, k) > 0 }

// Uncertain reports whether it pays to count a model's next prompt, which costs far more
// than to estimate it: while few reports have come to this estimator itself. What others
// send says little: prose, code and other scripts lie apart by a factor of two. It asks
// for a bounded number of counts a model.
func (e *Estimator) Uncertain(name string) bool {
	m := e.known(name)
	return m.reported.Load() < sure && m.doubted.Load() < maxDoubts && m.doubted.Add(1) <= maxDoubts
}

// estimate stays exact to a weight of 2⁴³ at the largest ratio of text.
func estimate(weight, ppm int64) int64 {
	whole := weight / Scale
	rest := weight % Scale
	return (whole*ppm + rest*ppm/Scale + unit - 1) / unit
}

// Observe learns that a prompt of that size had so many tokens, as was reported at now. Small prompts
// teach little beside large ones, for the overhead of their JSON is most of them.
func (e *Estimator) Observe(now time.Time, name string, s Size, actual int64) {
	switch {
	case actual < 1:
	case s.IsText():
		e.observeText(now, name, s, actual)
	default:
		e.observeFiles(now, name, s, actual)
	}
}

// observeText learns from a prompt that is all text. If it has more tokens than any text has, those beyond its estimate are hidden
// from this gateway. They will be there again in calls like this one, so they are estimated to be:
// not in proportion to a text that has nothing to do with them, and for nobody but this tenant.
func (e *Estimator) observeText(now time.Time, name string, s Size, actual int64) {
	weight := s.Text()
	if weight == 0 {
		return
	}
	m := e.known(name)
	if e.recent.Load() != m && m != &e.other {
		e.recent.Store(m)
	}
	sample := share(actual, weight)
	e.mu.Lock()
	defer e.mu.Unlock()
	if sample > maxRatio {
		m.beyond.learnLocked(now, actual-e.text(m, name, s), telling, e.evenly)
		return
	}
	m.beyond.learnLocked(now, 0, telling, e.evenly)
	m.reported.Add(1)
	m.ratios[s.mostly()].learnLocked(now, max(sample, minRatio), weight, e.evenly)
}

// Sample is how many tokens a part of a text has, which weighs so much; the zero Sample says nothing.
type Sample struct{ Tokens, Weight int64 }

func (s Sample) ratio() int64 { return min(share(s.Tokens, max(1, s.Weight)), maxRatio) }

// Unreported learns that a prompt of that size was sent of which nobody will say how many tokens it had, as when its caller broke off.
// Ratios go back up to what they would be if this tenant had taught nothing, or cheap prompts whose usage is reported would make room for dear ones whose
// usage never is; and up to what a sample of its text has, which teaches as much as a prompt of the sample's weight. What the prompt is then believed to
// have had is returned, its text no less than the sample.
func (e *Estimator) Unreported(now time.Time, name string, s Size, text Sample) int64 {
	e.raise(now, name, s, text)
	m := e.find(name)
	said := max(e.text(m, name, s), estimate(s.Text(), text.ratio()))
	return max(1, said+e.beside(m, name, s))
}

// raise learns from a prompt of a size of which nobody says how many tokens it had, and from a sample of its text.
func (e *Estimator) raise(now time.Time, name string, s Size, text Sample) {
	m := e.known(name)
	sample := text.ratio()
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, weight := range s.gathered() {
		if weight == 0 {
			continue
		}
		l := &m.ratios[k]
		untaught := cmp.Or(e.peers.ratio(name, Kind(k)), unit)
		if has := l.value.Load(); 0 < has && has < untaught {
			l.learnLocked(now, untaught, weight, e.evenly)
		}
		has := cmp.Or(l.value.Load(), untaught)
		if Kind(k) == s.mostly() && sample > has {
			if l.sank.IsZero() { // or the first of all would set it
				l.recallLocked(now, has, maxRatio)
			}
			l.learnLocked(now, sample, min(text.Weight, weight), e.evenly)
		}
	}
}

// observeFiles learns from a prompt that is not all text. How long its text is is believed to be
// known; what is left is divided among the files as it was estimated. What is more than these can have is hidden.
func (e *Estimator) observeFiles(now time.Time, name string, s Size, actual int64) {
	m := e.known(name)
	text := e.text(m, name, s)
	left := max(0, actual-text)
	guess := 0.0
	var ratios [Elsewhere + 1]int64
	for k := Image; k <= Elsewhere; k++ {
		if s[k] > 0 {
			ratios[k] = e.ratio(m, name, k)
			guess += float64(s[k]) / Scale * float64(ratios[k]) / unit
		}
	}
	if float64(left) < guess && guess < float64(text)/2 {
		return // it may as well be the text that is shorter than it was believed to be
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	hidden := left
	for k := Image; k <= Elsewhere; k++ {
		if s[k] > 0 {
			sample := int64(float64(ratios[k]) * float64(left) / max(1, guess))
			sample = min(max(sample, believed[k].least), believed[k].most)
			m.ratios[k].learnLocked(now, sample, s[k], e.evenly)
			hidden -= estimate(s[k], sample)
		}
	}
	m.beyond.learnLocked(now, max(0, hidden), telling, e.evenly)
}

// share is tokens per Scale units of weight, in millionths.
func share(actual, weight int64) int64 {
	return int64(float64(actual) * Scale / float64(weight) * unit)
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
	m := &model{name: e.peers.name(name)}
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
