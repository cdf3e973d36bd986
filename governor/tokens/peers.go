package tokens

import (
	"slices"
	"sync/atomic"
)

// Peers are the estimators of all tenants, from which one that has no reports on a model starts: by the median, in
// which each has one voice, however much it sends. The zero Peers, and a nil one, know nothing. They are safe for concurrent use.
type Peers struct{ list atomic.Pointer[[]*Estimator] }

const (
	// fewestVoices is how many tenants must have reports, lest one alone decides, and mostVoices how many are asked.
	fewestVoices, mostVoices = 3, 31
	// mostAsked bounds the search for them.
	mostAsked = 256
)

// Are says whose estimators they are.
func (p *Peers) Are(list []*Estimator) { p.list.Store(&list) }

// Join adds an estimator, while there are few. One that joins along with Are may be left out.
func (p *Peers) Join(e *Estimator) {
	for {
		old := p.list.Load()
		list := []*Estimator{e}
		if old != nil {
			list = append(slices.Clip(*old), e)
		}
		if len(list) > mostAsked || p.list.CompareAndSwap(old, &list) {
			return
		}
	}
}

func (p *Peers) all() []*Estimator {
	if p == nil {
		return nil
	}
	list := p.list.Load()
	if list == nil {
		return nil
	}
	return (*list)[:min(len(*list), mostAsked)]
}

// ratio is the median of what was learned of a kind, and 0 if too few know. What lies elsewhere is each tenant's own.
func (p *Peers) ratio(name string, k Kind) int64 {
	if k == Elsewhere {
		return 0
	}
	var voices [mostVoices]int64
	n := 0
	for _, e := range p.all() {
		if m := e.find(name); m != nil && m.ratios[k].value.Load() > 0 && n < len(voices) {
			voices[n] = m.ratios[k].value.Load()
			n++
		}
	}
	if n < fewestVoices {
		return 0
	}
	slices.Sort(voices[:n])
	return voices[n/2]
}

// name is the name of a model as one of them has it: one copy stays in the processor's cache, where one for each tenant does not.
func (p *Peers) name(name string) string {
	for _, e := range p.all() {
		if m := e.find(name); m != nil && m.name == name {
			return m.name
		}
	}
	return name
}
