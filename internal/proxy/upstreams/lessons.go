package upstreams

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Lessons are what a Set has learned of limits, as a value that can be written down.
type Lessons struct {
	Declared []Lesson `json:"declared,omitempty"`
	// Found are the limits that moved by what upstreams refused, by the key of each.
	Found map[string]Found `json:"found,omitempty"`
}

// Lesson is what an upstream has declared for a model.
type Lesson struct {
	Upstream, Account, Model string
	Told
	At time.Time
}

// Found is where a limit was at the last look, what the upstream took when it last refused, of which 0 is that it did not, and when that was.
type Found struct {
	Limit, Took float64
	At          time.Time
	Refused     time.Time `json:",omitzero"`
}

// Learned copies what the Set has learned.
func (s *Set) Learned() (l Lessons) {
	for _, m := range s.Members {
		m.mu.Lock()
		for model, d := range m.limits {
			if d.said == agreeing {
				l.Declared = append(l.Declared, Lesson{m.Name, m.Account, model, d.Told, d.at.Round(0)})
			}
		}
		m.mu.Unlock()
	}
	s.movers.mu.Lock()
	defer s.movers.mu.Unlock()
	for k := range s.movers.list {
		if m := &s.movers.list[k]; s.Ranges[k].Throttles && m.found > 0 {
			if l.Found == nil {
				l.Found = map[string]Found{}
			}
			l.Found[limits.Axis(k).Key()] = Found{m.found, m.knee, m.known.Round(0), m.refused.Round(0)}
		}
	}
	return l
}

// Recall takes in what an earlier process had Learned. Call it before calls come.
func (s *Set) Recall(now time.Time, l Lessons) {
	for _, d := range l.Declared {
		if i := s.Place(d.Upstream); i >= 0 && s.Members[i].Account == d.Account && !d.At.After(now) {
			m := s.Members[i]
			m.mu.Lock()
			for range agreeing {
				m.declareLocked(d.At, Result{Told: d.Told, Model: d.Model})
			}
			m.mu.Unlock()
		}
	}
	s.movers.mu.Lock()
	defer s.movers.mu.Unlock()
	for k := range s.movers.list {
		if f, was := l.Found[limits.Axis(k).Key()]; was && s.Ranges[k].Throttles && !f.At.After(now) && now.Sub(f.At) < movedLasts {
			m := &s.movers.list[k]
			m.known = f.At
			m.found = within(f.Limit, &s.Ranges[k])
			m.knee = min(max(0, f.Took), m.found)
			m.limit = int64(m.found)
			if !f.Refused.After(now) {
				m.refused = f.Refused
			}
		}
	}
}
