package notify

import "time"

// watch finds out what is new among facts. It has no clock.
type watch struct {
	told  map[string]*told
	since map[string]time.Time // facts that have to last
}

func newWatch() watch { return watch{map[string]*told{}, map[string]time.Time{}} }

// told is a fact that was told, here or elsewhere.
type told struct {
	fact      Fact
	seen      time.Time // last
	elsewhere bool
	wait      time.Duration // until it is asked again whether it is for this gateway to tell it,
	again     time.Time     // which is then
}

// news is that a fact is so now, or no more.
type news struct {
	Fact
	over bool
}

// news is what is to be told at a time, given what is so then. first reports whether a new fact is for this gateway to tell; if not, it is asked again
// the next time, or later if elsewhere was told.
func (w *watch) news(now time.Time, facts []Fact, first func(*Fact) bool) (list []news) {
	since := w.since
	w.since = map[string]time.Time{}
	for i := range facts {
		f := &facts[i]
		t := w.told[f.Key]
		if t != nil {
			t.seen = now
			if !t.elsewhere || now.Before(t.again) || !now.Before(t.fact.Once) {
				continue
			}
		}
		if f.Lasts > 0 && t == nil {
			began, known := since[f.Key]
			if !known {
				began = now
			}
			w.since[f.Key] = began
			if now.Sub(began) < f.Lasts {
				continue
			}
		}
		if first(f) {
			w.told[f.Key] = &told{fact: *f, seen: now}
			list = append(list, news{*f, false})
		}
	}
	for key, t := range w.told {
		if now.Sub(t.seen) < goneFor || now.Before(t.fact.Once) {
			continue
		}
		delete(w.told, key)
		if !t.elsewhere && t.fact.Once.IsZero() {
			list = append(list, news{t.fact, true})
		}
	}
	return list
}

// elsewhere notes that another gateway tells of a fact. It may end before it was heard, which the store does not say.
func (w *watch) elsewhere(now time.Time, f *Fact) {
	wait := claimFor
	if t := w.told[f.Key]; t != nil && t.elsewhere {
		wait = min(2*t.wait, time.Hour)
	}
	f.claim = time.Time{}
	w.told[f.Key] = &told{fact: *f, seen: now, elsewhere: true, wait: wait, again: now.Add(wait)}
}
