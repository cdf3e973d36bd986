package federation

import (
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// TestJournal_AllRestarted: if all nodes are restarted, and the store loses its data, nodes whose journals tell all that was
// used have the rest granted at once. If any of that is in doubt, all that may have been granted counts, as without a journal.
func TestJournal_AllRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		ran, away time.Duration
		journals  int
		expect    int
		granted   time.Duration // the longest wait
		used      int64
	}{
		"all have journals":             {ran: 70 * time.Second, away: 5 * time.Second, journals: 2, expect: 2, granted: time.Second, used: 18},
		"one has none":                  {ran: 70 * time.Second, away: 5 * time.Second, journals: 1, expect: 2, granted: 3 * time.Second, used: 100},
		"they ran for less than that":   {ran: 50 * time.Second, away: 5 * time.Second, journals: 2, expect: 2, granted: 3 * time.Second, used: 100},
		"they were away for long":       {ran: 70 * time.Second, away: 31 * time.Second, journals: 2, expect: 2, granted: 3 * time.Second, used: 100},
		"how many there are is unknown": {ran: 70 * time.Second, away: 5 * time.Second, journals: 2, granted: 3 * time.Second, used: 100},
		"one of three is not back":      {ran: 70 * time.Second, away: 5 * time.Second, journals: 2, expect: 3, granted: 3 * time.Second, used: 100},
	} {
		t.Run(name, func(t *testing.T) {
			rules := DefaultRules()
			now := t0
			ms := func() int64 { return 1_000_000 + now.Sub(t0).Milliseconds() }
			a := NewAccount(rules, ms(), Options{Fresh: true})
			beat := func(f *fellow) Reply {
				f.tell(now)
				f.beat.Expect = c.expect
				return f.arrives(a, ms(), now, Envelope{}, true)
			}
			list := []*fellow{newFellow("a", rules), newFellow("b", rules)}
			for now.Before(t0.Add(c.ran)) {
				now = now.Add(time.Second)
				for i, f := range list {
					if now.Sub(t0)%(10*time.Second) == 0 {
						f.report.Bookings = append(f.report.Bookings, escrow.Booking{End: now, Cost: int64(1 + i)})
					}
					beat(f)
				}
			}
			for i, f := range list {
				journal := slices.Clone(f.report.Bookings)
				if i >= c.journals {
					journal = nil
				}
				list[i] = restartedWith(t, f, f.node.cfg.Name, journal, rules)
			}
			now = now.Add(c.away)
			a = NewAccount(rules, ms(), Options{})
			began := now
			for {
				beat(list[0])
				if beat(list[1]).Status == Granted {
					break
				}
				now = now.Add(250 * time.Millisecond)
				if now.Sub(began) > c.granted {
					t.Fatalf("nothing was granted for %v", now.Sub(began))
				}
			}
			if c.granted > rules.TTL && now.Sub(began) < rules.TTL {
				t.Errorf("it was granted after %v", now.Sub(began))
			}
			if used := a.used()[0]; used != c.used {
				t.Errorf("%d count as used, want %d", used, c.used)
			}
		})
	}
}

// restartedWith is a fellow that begins with what an earlier process kept, and with its journal.
func restartedWith(t *testing.T, f *fellow, name string, journal []escrow.Booking, r Rules) *fellow {
	t.Helper()
	next := restarted(t, f, name, r)
	m := *next.node.cfg.Memory
	m.Journal = journal
	next.node.cfg.Memory = &m
	return next
}

// TestJournal_Renamed: a node that is restarted twice, each time under another name, does not stand for two that have told all: the other
// one's usage is not forgotten.
func TestJournal_Renamed(t *testing.T) {
	rules := DefaultRules()
	now := t0
	ms := func() int64 { return 1_000_000 + now.Sub(t0).Milliseconds() }
	a := NewAccount(rules, ms(), Options{Fresh: true})
	beat := func(f *fellow) Reply {
		f.tell(now)
		f.beat.Expect = 2
		return f.arrives(a, ms(), now, Envelope{}, true)
	}
	one := newFellow("a", rules)
	other := newFellow("b", rules)
	other.report.Bookings = []escrow.Booking{{End: t0.Add(60 * time.Second), Cost: 80}}
	for now.Before(t0.Add(70 * time.Second)) {
		now = now.Add(time.Second)
		beat(one)
		beat(other)
	}
	now = now.Add(5 * time.Second)
	a = NewAccount(rules, ms(), Options{})
	for _, name := range []string{"x", "y"} {
		next := restartedWith(t, one, name, []escrow.Booking{}, rules)
		for range 3 {
			if beat(next).Status == Granted {
				t.Fatalf("as %s it is granted something, and %d count as used of 80", name, a.used()[0])
			}
			now = now.Add(250 * time.Millisecond)
		}
	}
}
