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
			s := newForgetful(c.expect)
			list := []*fellow{newFellow("a", s.rules), newFellow("b", s.rules)}
			for s.now.Before(t0.Add(c.ran)) {
				s.now = s.now.Add(time.Second)
				for i, f := range list {
					if s.now.Sub(t0)%(10*time.Second) == 0 {
						f.report.Bookings = append(f.report.Bookings, escrow.Booking{End: s.now, Cost: int64(1 + i)})
					}
					s.beat(f)
				}
			}
			for i, f := range list {
				journal := slices.Clone(f.report.Bookings)
				if i >= c.journals {
					journal = nil
				}
				list[i] = restartedWith(t, f, f.node.cfg.Name, journal, s.rules)
			}
			s.forget(c.away)
			began := s.now
			for {
				s.beat(list[0])
				if s.beat(list[1]).Status == Granted {
					break
				}
				s.now = s.now.Add(250 * time.Millisecond)
				if s.now.Sub(began) > c.granted {
					t.Fatalf("nothing was granted for %v", s.now.Sub(began))
				}
			}
			if c.granted > s.rules.TTL && s.now.Sub(began) < s.rules.TTL {
				t.Errorf("it was granted after %v", s.now.Sub(began))
			}
			if used := s.account.used()[0]; used != c.used {
				t.Errorf("%d count as used, want %d", used, c.used)
			}
		})
	}
}

// forgetful is a store that loses its data, and the time.
type forgetful struct {
	rules   Rules
	expect  int // how many nodes share it, as these say
	now     time.Time
	account *Account
}

func newForgetful(expect int) *forgetful {
	s := &forgetful{rules: DefaultRules(), expect: expect, now: t0}
	s.account = NewAccount(s.rules, s.ms(), Options{Fresh: true})
	return s
}

// ms is the store's own time.
func (s *forgetful) ms() int64 { return 1_000_000 + s.now.Sub(t0).Milliseconds() }

// beat has a node report, and gives it the reply.
func (s *forgetful) beat(f *fellow) Reply {
	f.tell(s.now)
	f.beat.Expect = s.expect
	return f.arrives(s.account, s.ms(), s.now, Envelope{}, true)
}

// forget has the store come back without its data after a while.
func (s *forgetful) forget(away time.Duration) {
	s.now = s.now.Add(away)
	s.account = NewAccount(s.rules, s.ms(), Options{})
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
	s := newForgetful(2)
	one := newFellow("a", s.rules)
	other := newFellow("b", s.rules)
	other.report.Bookings = []escrow.Booking{{End: t0.Add(60 * time.Second), Cost: 80}}
	for s.now.Before(t0.Add(70 * time.Second)) {
		s.now = s.now.Add(time.Second)
		s.beat(one)
		s.beat(other)
	}
	s.forget(5 * time.Second)
	for _, name := range []string{"x", "y"} {
		next := restartedWith(t, one, name, []escrow.Booking{}, s.rules)
		for range 3 {
			if s.beat(next).Status == Granted {
				t.Fatalf("as %s it is granted something, and %d count as used of 80", name, s.account.used()[0])
			}
			s.now = s.now.Add(250 * time.Millisecond)
		}
	}
}
