package upstreams

import (
	"testing"
	"time"
)

// An upstream is silent if several calls wait, longer than calls do.
func TestSilent(t *testing.T) {
	type step struct {
		at, took time.Duration
		do       string // sent, answered or gone
	}
	for name, c := range map[string]struct {
		steps []step
		at    time.Duration
		since time.Duration // negative: it is not silent
	}{
		"nothing waits":          {[]step{{do: "sent"}, {at: time.Second, do: "answered", took: time.Second}}, time.Minute, -1},
		"one call takes long":    {[]step{{do: "sent"}}, time.Minute, -1},
		"two wait":               {[]step{{do: "sent"}, {at: time.Second, do: "sent"}}, 10 * time.Second, 0},
		"two wait, but not long": {[]step{{do: "sent"}, {at: time.Second, do: "sent"}}, 9 * time.Second, -1},
		"another is answered": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 5 * time.Second, do: "answered", took: 5 * time.Second}}, 14 * time.Second, -1,
		},
		"since the last answer": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 5 * time.Second, do: "answered", took: 5 * time.Second}}, 15 * time.Second, 5 * time.Second,
		},
		"callers go": {[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 9 * time.Second, do: "gone"}}, 10 * time.Second, 0},
		"answers take long here": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 30 * time.Second, do: "answered", took: 30 * time.Second}}, 89 * time.Second, -1,
		},
		"longer than they take": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 30 * time.Second, do: "answered", took: 30 * time.Second}}, 90 * time.Second, 30 * time.Second,
		},
	} {
		m := New([]Spec{{Name: "u", Weight: 1}}, nil).Members[0]
		for _, s := range c.steps {
			if now := t0.Add(s.at); s.do == "sent" {
				m.Sent(now)
			} else {
				m.AnswerEnded(now, now.Add(-s.took), s.do == "answered")
			}
		}
		since, _, silent := m.Silent(t0.Add(c.at))
		if silent != (c.since >= 0) || silent && since.Sub(t0) != c.since {
			t.Errorf("%s: silent %t since %v, want %v", name, silent, since.Sub(t0), c.since)
		}
	}
}
