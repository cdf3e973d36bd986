package tokens

import (
	"cmp"
	"slices"
	"time"
)

// Lesson is an Estimator's knowledge of a model, as a value that can be written down.
type Lesson struct {
	Model    string
	Beyond   int64        `json:",omitempty"`
	Reported int64        `json:",omitempty"`
	Ratios   [kinds]int64 // in millionths; 0 is unknown
}

// mostLessons is the longest list of Lessons, because names of models come from callers.
const mostLessons = 64

// Lessons are the Estimator's knowledge of the 64 models with the most reports.
func (e *Estimator) Lessons() (list []Lesson) {
	for name, m := range e.all() {
		l := Lesson{Model: name, Beyond: m.beyond.value.Load(), Reported: m.reported.Load()}
		for k := range l.Ratios {
			l.Ratios[k] = m.ratios[k].value.Load()
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(x, y Lesson) int {
		return cmp.Or(cmp.Compare(y.Reported, x.Reported), cmp.Compare(x.Model, y.Model))
	})
	return list[:min(len(list), mostLessons)]
}

// Recall takes in what an earlier Estimator had learned until now, as far as it is plausible.
func (e *Estimator) Recall(now time.Time, list []Lesson) {
	for _, l := range list[:min(len(list), mostLessons)] {
		m := e.known(l.Model)
		e.mu.Lock()
		m.reported.Store(max(0, l.Reported))
		m.beyond.recallLocked(now, l.Beyond, maxBeyond)
		for k, ratio := range l.Ratios {
			if ratio >= believed[k].least {
				m.ratios[k].recallLocked(now, ratio, believed[k].most)
			}
		}
		e.mu.Unlock()
	}
}

// maxBeyond bounds what is believed of tokens that no text explains.
const maxBeyond = int64(1) << 24

// recallLocked goes on from a value of earlier reports.
func (l *level) recallLocked(now time.Time, value, most int64) {
	if value > 0 {
		l.value.Store(min(value, most))
		l.sank = now
	}
}
