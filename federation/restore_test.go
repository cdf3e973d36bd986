package federation

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// fellow is a node and what it has used, whose beats arrive or get lost.
type fellow struct {
	node   *Node
	report Report
	beat   *Beat
}

func newFellow(name string, r Rules) *fellow {
	return &fellow{node: NewNode(Config{Name: name, Instance: name, Rules: r}), report: Report{Limits: Amounts{100, 10}}}
}

// tell makes the next beat.
func (f *fellow) tell(now time.Time) *Beat {
	r := f.report
	f.beat = f.node.Step(now, &r)[0].(Send).Beat
	return f.beat
}

// arrives lets the last beat arrive, and its answer if it is heard.
func (f *fellow) arrives(a *Account, ms int64, now time.Time, grant Envelope, heard bool) Reply {
	m, r := a.receive(ms, a.Incarnation, f.beat.Expect, f.beat)
	if m == nil {
		if heard {
			f.node.Step(now, &r)
		}
		return r
	}
	if r.Status == Granted {
		r.Grant[0] = grant
	}
	r = a.answered(m, r)
	if heard {
		f.node.Step(now, &r)
	}
	return r
}

// forgetful is a store that loses its data, and the time.
type forgetful struct {
	rules   Rules
	expect  int // how many nodes share it, as these say
	now     time.Time
	ahead   time.Duration // by which the store's clock was put forward
	account *Account
}

func newForgetful(expect int) *forgetful {
	s := &forgetful{rules: DefaultRules(), expect: expect, now: t0}
	s.account = NewAccount(s.rules, s.ms(), Options{Fresh: true})
	return s
}

// ms is the store's own time.
func (s *forgetful) ms() int64 { return 10_000_000 + (s.now.Sub(t0) + s.ahead).Milliseconds() }

// beat has a node report, and gives it the reply.
func (s *forgetful) beat(f *fellow) Reply {
	f.tell(s.now)
	f.beat.Expect = s.expect
	return f.arrives(s.account, s.ms(), s.now, Envelope{}, true)
}

// use has nodes report for some seconds, in each of which they use so much.
func (s *forgetful) use(seconds int, costs []int64, list ...*fellow) {
	for range seconds {
		s.now = s.now.Add(time.Second)
		for i, f := range list {
			if costs[i] > 0 {
				f.report.Bookings = append(f.report.Bookings, escrow.Booking{End: s.now, Cost: costs[i]})
			}
			s.beat(f)
		}
	}
}

// forget has the store come back without its data after a while.
func (s *forgetful) forget(away time.Duration) {
	s.now = s.now.Add(away)
	s.account = NewAccount(s.rules, s.ms(), Options{})
}

// TestContained: of what a node says that a digest contains of it, the digest contains that much, whichever of its beats and
// answers arrived.
func TestContained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := tiny(8, 2)
		a := NewAccount(rules, 10_000, Options{Fresh: true})
		f := newFellow("f", rules)
		other := newFellow("other", rules)
		now := t0
		ms := func() int64 { return 10_000 + now.Sub(t0).Milliseconds() }
		booked := map[time.Time]int64{}
		for range rapid.IntRange(2, 12).Draw(t, "beats") {
			now = now.Add(time.Duration(rapid.IntRange(1, 150).Draw(t, "ms")) * time.Millisecond)
			end := now.Truncate(50 * time.Millisecond)
			booked[end] = rapid.Int64Range(0, 9).Draw(t, "used")
			for at := range booked {
				if rapid.IntRange(0, 5).Draw(t, "refund") == 0 {
					booked[at] /= 2
				}
			}
			f.report.Bookings = nil
			for at, cost := range booked {
				if cost > 0 {
					f.report.Bookings = append(f.report.Bookings, escrow.Booking{End: at, Cost: cost})
				}
			}
			f.report.Held = Amounts{rapid.Int64Range(0, 5).Draw(t, "held")}
			f.report.Refundable = Amounts{rapid.Int64Range(0, 5).Draw(t, "refundable")}
			f.report.Holding[0] = Holding{Left: rapid.Int64Range(0, 20).Draw(t, "left"), Rate: rapid.Int64Range(0, 20).Draw(t, "rate"), Until: now.Add(100 * time.Millisecond)}
			f.tell(now)
			switch rapid.IntRange(0, 2).Draw(t, "fate") {
			case 0: // it is lost
			case 1:
				f.arrives(a, ms(), now, drawEnvelope(t).sane(rules), false)
			case 2:
				f.arrives(a, ms(), now, drawEnvelope(t).sane(rules), true)
			}
			other.tell(now)
			other.arrives(a, ms(), now, Envelope{}, true)
			checkContained(t, a, f, other, now)
		}
	})
}

// checkContained looks at what f would say now, were the store to lose its data, and at what the other's digest contains of it.
func checkContained(t *rapid.T, a *Account, f, other *fellow, now time.Time) {
	d, ok := decodeDigest(other.node.kept.digest, a.Rules)
	if !ok {
		t.Fatal("the other has no digest")
	}
	lost := *f.node
	lost.epoch++
	lost.full = true
	c := lost.copy(now)
	m := a.Members["f"]
	if c == nil || m == nil {
		return
	}
	for _, x := range c.Booked {
		if got := d.Booked.at(x.Slot); x.Used[0] > got[0] {
			t.Fatalf("in slot %d the digest has %v, of which the node says that %v is its own", x.Slot, got, x.Used)
		}
	}
	may := m.may(a.Rules)
	if c.Held[0] > m.Held[0] || c.Refundable[0] > m.Refundable[0] || c.May[0] > may[0] {
		t.Fatalf("the digest has %v held, %v refundable, and %v that may be used; the node says that it has %v, %v and %v", m.Held, m.Refundable, may, c.Held, c.Refundable, c.May)
	}
}

// TestRestored: a memory that is new grants again, before a Window has passed, if one node is there that has heard of the one
// before: not more than is left.
func TestRestored(t *testing.T) {
	s := newForgetful(0)
	survivor := newFellow("survivor", s.rules)
	s.use(30, []int64{3, 0}, newFellow("dead", s.rules), survivor)
	s.forget(time.Second)
	if r := s.beat(survivor); r.Status != Resend {
		t.Fatalf("%s, want %s", r.Status, Resend)
	}
	lost := s.now
	for {
		r := s.beat(survivor)
		if r.Status == Granted {
			break
		}
		if len(r.Digest) > 0 {
			t.Fatal("a memory that is learning gave a digest")
		}
		s.now = s.now.Add(250 * time.Millisecond)
	}
	if took := s.now.Sub(lost); took > 3*time.Second {
		t.Errorf("nothing was granted for %v", took)
	}
	// The dead node had used 90 in the half minute before, and may have used the other 10.
	if used := s.account.used()[0]; used != 100 {
		t.Errorf("%d count as used, want 100", used)
	}
	s.now = s.now.Add(s.rules.Window)
	s.beat(survivor)
	s.now = s.now.Add(2 * time.Second)
	s.beat(survivor)
	if s.account.Before != nil || s.account.Members["survivor"].Copy != nil {
		t.Error("copies are kept beyond their use")
	}
}

// TestRestored_Late: when nodes that were frozen or cut off tell a memory that has been restored without them, what they used counts
// once, and what others used who never tell counts on.
func TestRestored_Late(t *testing.T) {
	for _, x := range []struct {
		expect, dead int
		want         int64 // that counts as used when all have told
	}{
		{expect: 4, want: 80},
		{expect: 4, dead: 1, want: 100},
		{want: 100},
	} {
		s := newForgetful(x.expect)
		var all []*fellow
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, newFellow(name, s.rules))
		}
		s.use(20, []int64{1, 1, 1, 1}, all...)
		s.forget(0)
		for range 16 {
			s.now = s.now.Add(250 * time.Millisecond)
			s.beat(all[0])
		}
		if used := s.account.used()[0]; used != 100 {
			t.Errorf("expecting %d, %d count as used when one has told, want 100", x.expect, used)
		}
		for _, late := range all[1 : 4-x.dead] {
			s.now = s.now.Add(3 * time.Second)
			for range 2 {
				if s.beat(late).Status == Granted && s.account.used()[0] > 100 {
					t.Errorf("expecting %d, %d count as used when %s has told", x.expect, s.account.used()[0], late.node.cfg.Name)
				}
			}
		}
		if used := s.account.used()[0]; used != x.want {
			t.Errorf("expecting %d, %d dead: %d count as used when all have told, want %d", x.expect, x.dead, used, x.want)
		}
	}
}

// TestRestored_Clock: usage that a digest tells of counts until a Window has passed since then, whatever the new store's clock
// shows.
func TestRestored_Clock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -3 * time.Second, 0, time.Second, time.Hour} {
		s := newForgetful(0)
		survivor := newFellow("survivor", s.rules)
		s.use(30, []int64{3, 0}, newFellow("dead", s.rules), survivor)
		last := s.now
		s.ahead = ahead
		s.forget(0)
		for s.now.Before(last.Add(3 * time.Second)) {
			s.beat(survivor)
			s.now = s.now.Add(250 * time.Millisecond)
		}
		for s.now.Before(last.Add(s.rules.Window)) {
			// All that may have been granted since the digest was made counts too, at the latest until a Window after that.
			own := 100 - max(0, int64(s.now.Sub(last)/time.Second)-29)*3
			if used := s.account.used()[0]; used < min(100, own) {
				t.Fatalf("clock %v ahead, %v after the last use: %d count, want %d", ahead, s.now.Sub(last), used, own)
			}
			s.now = s.now.Add(time.Second)
			s.beat(survivor)
		}
		s.now = s.now.Add(5 * time.Second)
		s.beat(survivor)
		if used := s.account.used()[0]; used != 0 {
			t.Errorf("clock %v ahead: %d count more than a Window later", ahead, used)
		}
	}
}

// TestSince: since a digest was made, others may have been granted what was left of the limit then, what has left the Window
// since, and what was given back.
func TestSince(t *testing.T) {
	rules := DefaultRules()
	// The Window begins in slot 175 where what was granted at the loss, a second after the digest, has expired.
	base := digest{Epoch: 1, Now: 100_000, Limits: Amounts{1000}, Booked: book{{168, Amounts{7}}, {173, Amounts{50}}, {300, Amounts{200}}}}
	for _, x := range []struct {
		name   string
		change func(b *before, c *Copy)
		want   int64
	}{
		{"a second old", func(*before, *Copy) {}, 800},
		{"three seconds old", func(b *before, _ *Copy) {
			b.Age = 3000
			b.Digest.Booked.set(180, Amounts{100})
		}, 800},
		{"half a minute old", func(b *before, _ *Copy) { b.Age = 35_000 }, 1000},
		{"calls run where they are counted at their end", func(b *before, _ *Copy) { b.Digest.Held[0] = 30 }, 770},
		{"others may have given something back", func(b *before, _ *Copy) { b.Digest.Refundable[0] = 20 }, 820},
		{"a node that tells has given something back", func(_ *before, c *Copy) { c.Refunded[0] = 40 }, 840},
		{"the limit was more than it is", func(b *before, _ *Copy) { b.Digest.Limits[0] = 1100 }, 900},
		{"there was no limit", func(b *before, _ *Copy) { b.Digest.Limits[0] = 0 }, 1000},
		{"no more than the limit", func(b *before, _ *Copy) { b.Digest.Refundable[0] = 2000 }, 1000},
	} {
		b := before{Digest: base, Age: 1000}
		b.Digest.Booked = append(book{}, base.Booked...)
		c := Copy{}
		x.change(&b, &c)
		a := NewAccount(rules, 100_000, Options{})
		a.Before = &b
		a.Members["teller"] = &Member{Limits: Amounts{1000}, Copy: &contained{1, c}}
		_, refunded, _ := a.untold()
		if got := b.since(rules, b.limits(a.highestLimits()), refunded)[0]; got != x.want {
			t.Errorf("%s: %d may have been used since, want %d", x.name, got, x.want)
		}
	}
}

// TestRestored_Plans: what a node gave back may have been granted to others, even if it has planned as much for later.
func TestRestored_Plans(t *testing.T) {
	s := newForgetful(0)
	at := func(second float64) time.Time { return t0.Add(time.Duration(second * float64(time.Second))) }
	b := newFellow("b", s.rules)
	c := newFellow("c", s.rules)
	s.beat(b)
	s.now = at(1)
	c.report.Bookings = []escrow.Booking{{End: s.now, Cost: 50}}
	s.beat(c)
	for s.now = at(2); s.now.Before(at(51)); s.now = s.now.Add(time.Second / 2) {
		if s.now.Equal(at(10)) {
			b.report.Bookings = []escrow.Booking{{End: s.now, Cost: 50}}
		}
		s.beat(c)
		s.beat(b)
	}
	b.report.Bookings = []escrow.Booking{{End: at(85), Cost: 50, Planned: true}}
	b.tell(s.now)
	b.arrives(s.account, s.ms(), s.now, Envelope{}, false) // now c may be granted 50, and dies
	s.forget(time.Second / 2)
	for ; s.now.Before(at(72)); s.now = s.now.Add(250 * time.Millisecond) {
		s.beat(b)
	}
	if got := s.account.cut(s.account.Members["b"], 0, 100, Envelope{100, 0, 3000}); got.Level > 0 {
		t.Errorf("at %v another %d may be used, beside 50 that are planned and 50 that the dead may have used", s.now.Sub(t0), got.Level)
	}
}

// TestRestored_Twice: a node that has told a memory in between brings no copy of the one before, for what it gave back since
// may have been granted.
func TestRestored_Twice(t *testing.T) {
	s := newForgetful(0)
	b := newFellow("b", s.rules)
	b.report.Bookings = []escrow.Booking{{End: s.now, Cost: 50}}
	s.beat(b)
	s.now = s.now.Add(time.Second)
	s.beat(b)
	for loss := range 2 {
		s.forget(0)
		if r := s.beat(b); r.Status != Resend {
			t.Fatalf("%s, want %s", r.Status, Resend)
		}
		s.beat(b)
		if brings := b.beat.Copy != nil; brings != (loss == 0) {
			t.Errorf("after loss %d the node brings a copy: %t", loss+1, brings)
		}
		b.report.Bookings = nil
		s.now = s.now.Add(250 * time.Millisecond)
		s.beat(b)
	}
}

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

// restarted is a fellow that begins with what an earlier process kept, as it is read from a file.
func restarted(t *testing.T, f *fellow, name string, r Rules) *fellow {
	t.Helper()
	m, ok := f.node.Memory()
	if !ok {
		t.Fatal("there is nothing to keep")
	}
	text := testkit.Must(json.Marshal(m))(t)
	var read Memory
	testkit.OK(t, json.Unmarshal(text, &read))
	next := newFellow(name, r)
	next.node = NewNode(Config{Name: name, Instance: name + " again", Rules: r, Memory: &read})
	return next
}

// TestMemory_AllRestarted: if all processes end, and the store loses its data, one that kept what it knew has the account
// restored: what was used counts, and grants flow again after a TTL. That as many have come back as there were says nothing.
func TestMemory_AllRestarted(t *testing.T) {
	s := newForgetful(2)
	f := newFellow("f", s.rules)
	s.use(30, []int64{2, 1}, newFellow("other", s.rules), f)
	again := restarted(t, f, "f", s.rules)
	fresh := newFellow("other", s.rules)
	fresh.node = NewNode(Config{Name: "other", Instance: "other again", Rules: s.rules})
	s.forget(5 * time.Second)
	began := s.now
	for {
		s.beat(fresh)
		if s.beat(again).Status == Granted {
			break
		}
		s.now = s.now.Add(250 * time.Millisecond)
	}
	if took := s.now.Sub(began); took < s.rules.TTL || took > 3*time.Second {
		t.Errorf("nothing was granted for %v", took)
	}
	if used := s.account.used()[0]; used != 100 { // 90 were, and the rest may have been
		t.Errorf("%d count as used, want 100", used)
	}
}

// TestMemory_Kept: if the store has lost nothing, what an earlier process kept is of no importance.
func TestMemory_Kept(t *testing.T) {
	s := newForgetful(0)
	f := newFellow("f", s.rules)
	for range 3 {
		s.beat(f)
		s.now = s.now.Add(time.Second)
	}
	again := restarted(t, f, "f", s.rules)
	s.now = s.now.Add(2 * time.Second)
	if r := s.beat(again); r.Status != Granted || again.beat.Copy != nil {
		t.Errorf("it is answered %s, and brings a copy: %v", r.Status, again.beat.Copy != nil)
	}
	again.tell(s.now.Add(time.Second))
	if again.beat.Full || again.beat.Copy != nil {
		t.Error("it tells everything")
	}
}

// TestMemory_ClockBack: a wall clock that was put back says nothing of how old a digest is.
func TestMemory_ClockBack(t *testing.T) {
	rules := DefaultRules()
	n := NewNode(Config{Name: "f", Instance: "f", Rules: rules, Memory: &Memory{Digest: []byte{1}, Epoch: 5, Clock: 1000, Sent: t0, Got: t0}})
	n.epoch = 6
	if c := n.copy(t0.Add(-time.Hour)); c.Age < 2*rules.Window.Milliseconds() || !c.Former {
		t.Errorf("it is %d ms old", c.Age)
	}
	if c := n.copy(t0.Add(10 * time.Second)); c.Age < 10_000 || c.Age > 10_100 {
		t.Errorf("after 10 s it is %d ms old", c.Age)
	}
}
