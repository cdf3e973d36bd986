package federation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
	rules := DefaultRules()
	a := NewAccount(rules, 1_000_000, Options{Fresh: true})
	now := t0
	ms := func() int64 { return 1_000_000 + now.Sub(t0).Milliseconds() }
	f := newFellow("f", rules)
	other := newFellow("other", rules)
	beat := func(f *fellow) Reply {
		f.tell(now)
		f.beat.Expect = 2
		return f.arrives(a, ms(), now, Envelope{}, true)
	}
	for range 30 {
		now = now.Add(time.Second)
		other.report.Bookings = append(other.report.Bookings, escrow.Booking{End: now, Cost: 2})
		beat(other)
		f.report.Bookings = append(f.report.Bookings, escrow.Booking{End: now, Cost: 1})
		beat(f)
	}
	again := restarted(t, f, "f", rules)
	fresh := newFellow("other", rules)
	fresh.node = NewNode(Config{Name: "other", Instance: "other again", Rules: rules})
	now = now.Add(5 * time.Second)
	a = NewAccount(rules, ms(), Options{})
	began := now
	for {
		beat(fresh)
		if beat(again).Status == Granted {
			break
		}
		now = now.Add(250 * time.Millisecond)
	}
	if took := now.Sub(began); took < rules.TTL || took > 3*time.Second {
		t.Errorf("nothing was granted for %v", took)
	}
	if used := a.used()[0]; used != 100 { // 90 were, and the rest may have been
		t.Errorf("%d count as used, want 100", used)
	}
}

// TestMemory_Kept: if the store has lost nothing, what an earlier process kept is of no importance.
func TestMemory_Kept(t *testing.T) {
	rules := DefaultRules()
	a := NewAccount(rules, 1_000_000, Options{Fresh: true})
	f := newFellow("f", rules)
	for ms := int64(0); ms < 3000; ms += 1000 {
		now := t0.Add(time.Duration(ms) * time.Millisecond)
		f.tell(now)
		f.arrives(a, 1_000_000+ms, now, Envelope{}, true)
	}
	again := restarted(t, f, "f", rules)
	now := t0.Add(5 * time.Second)
	again.tell(now)
	if r := again.arrives(a, 1_005_000, now, Envelope{}, true); r.Status != Granted || again.beat.Copy != nil {
		t.Errorf("it is answered %s, and brings a copy: %v", r.Status, again.beat.Copy != nil)
	}
	again.tell(now.Add(time.Second))
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
