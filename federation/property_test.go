package federation

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b book
		oracle := map[int64]Amounts{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			slot := rapid.Int64Range(-5, 10).Draw(t, "slot")
			x := Amounts{rapid.Int64Range(-2, 3).Draw(t, "tokens"), rapid.Int64Range(0, 1).Draw(t, "requests")}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				b.set(slot, x)
				oracle[slot] = x
			case 1:
				b.add(slot, x)
				oracle[slot] = plus(oracle[slot], x)
			case 2:
				b.since(slot)
				for s := range oracle {
					if s < slot {
						delete(oracle, s)
					}
				}
			case 3:
				var want Amounts
				for s, x := range oracle {
					if s >= slot && s <= slot+4 {
						want = plus(want, x)
					}
				}
				if got := b.sum(slot, slot+4); got != want {
					t.Fatalf("from %d to %d there is %v, want %v", slot, slot+4, got, want)
				}
			}
			for i, x := range b {
				if x.Used == (Amounts{}) || x.Used != oracle[x.Slot] || i > 0 && b[i-1].Slot >= x.Slot {
					t.Fatalf("slot %d: %v in %v, want %v", x.Slot, x.Used, b, oracle[x.Slot])
				}
			}
			for s, x := range oracle {
				if b.at(s) != x {
					t.Fatalf("slot %d: %v, want %v", s, b.at(s), x)
				}
			}
		}
	})
}

// drawAccount is an account that random beats of a few nodes came to.
func drawAccount(t *rapid.T) *Account {
	a := NewAccount(tiny(5, 2), 10_000, Options{Fresh: true})
	now := int64(10_000)
	seqs := map[string]int64{}
	for range rapid.IntRange(1, 15).Draw(t, "beats") {
		now += rapid.Int64Range(0, 150).Draw(t, "ms")
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		b := &Beat{Node: name, Instance: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "instance"), Join: true, Full: rapid.Bool().Draw(t, "full")}
		seqs[b.Node+b.Instance]++
		b.Seq = seqs[b.Node+b.Instance]
		b.Epoch = a.Epoch
		b.Limits = Amounts{100, 10}
		b.Full = b.Full || b.Seq == 1 || a.Members[name] == nil || a.Members[name].Instance != b.Instance
		b.Sent = now - rapid.Int64Range(0, 100).Draw(t, "ago")
		for range rapid.IntRange(0, 4).Draw(t, "slots") {
			b.Booked = append(b.Booked, Booked{a.slotOf(now) + rapid.Int64Range(-6, 6).Draw(t, "slot"), Amounts{rapid.Int64Range(0, 9).Draw(t, "used"), 1}})
		}
		b.Past = a.slotOf(now) + rapid.Int64Range(-1, 2).Draw(t, "past")
		b.Held[0] = rapid.Int64Range(0, 5).Draw(t, "held")
		b.Holding[0] = drawEnvelope(t)
		b.Parts[0] = rapid.Int64Range(0, a.Rules.window()).Draw(t, "parts")
		if m, r := a.receive(now, "", 0, b); m != nil {
			r.Grant[0] = a.cut(m, 0, 100, drawEnvelope(t))
			a.answered(m, r)
		}
	}
	return a
}

func drawEnvelope(t *rapid.T) Envelope {
	return Envelope{rapid.Int64Range(-5, 60).Draw(t, "level"), rapid.Int64Range(0, 100).Draw(t, "rate"), rapid.Int64Range(0, 200).Draw(t, "left")}
}

// TestBooked: what all nodes together have booked is the sum of what each has, and of
// what those had that are no more: it only ever grows beyond that by those.
func TestBooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAccount(t)
		for slot := a.slotOf(a.Now) - 5; slot < a.slotOf(a.Now)+20; slot++ {
			var sum Amounts
			for _, m := range a.Members {
				sum = plus(sum, m.Booked.at(slot))
			}
			if rest := minus(plus(a.Booked.at(slot), a.Gone.at(slot)), sum); rest[0] < 0 || rest[1] < 0 {
				t.Fatalf("slot %d: %v is booked, the members alone have %v", slot, a.Booked.at(slot), sum)
			}
		}
	})
}

// room is the dumb twin of rooms: at the end of one slot.
func room(a *Account, of *Member, k int, limit, slot int64) int64 {
	r := a.Rules
	now := a.slotOf(a.Now)
	left := limit
	for _, x := range a.Booked {
		if x.Slot >= slot-r.Slots && x.Slot <= slot {
			left -= x.Used[k]
		}
	}
	for _, x := range a.Gone {
		if x.Slot >= slot-r.Slots {
			left -= x.Used[k]
		}
	}
	for _, m := range a.Members {
		left -= m.Held[k]
		for _, x := range m.Booked {
			if x.Slot > slot && x.Slot > now && x.Slot <= m.Past {
				left -= x.Used[k]
			}
		}
		if m == of || m.expiry(r)/r.slot() < slot-r.Slots {
			continue
		}
		most := int64(0)
		for ms := int64(0); ms <= elapsed((slot+1)*r.slot()-m.Sent) && ms <= r.ttl(); ms++ {
			for _, e := range []Envelope{m.Holding[k], m.Grant[k]} {
				if ms <= e.Left && e.Left > 0 {
					most = max(most, e.Level+floorDiv(m.Parts[k]+e.Rate*ms, r.window()))
				}
			}
		}
		left -= most
	}
	return left
}

// TestRooms: what is left for a node is what a search through everything finds.
func TestRooms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAccount(t)
		of := a.Members[rapid.SampledFrom(a.names()).Draw(t, "of")]
		slot := a.slotOf(a.Now)
		a.rooms(of, 0, 100, func(got, _ int64) {
			if want := room(a, of, 0, 100, slot); got != want {
				t.Fatalf("at the end of slot %d there is room for %d, want %d", slot, got, want)
			}
			slot++
		})
		// Beyond what is told, nothing becomes tighter.
		tightest := room(a, of, 0, 100, slot-1)
		for range 20 {
			if beyond := room(a, of, 0, 100, slot); beyond < tightest {
				t.Fatalf("at the end of slot %d there is only room for %d, and %d at the last that was told", slot, beyond, tightest)
			}
			slot++
		}
	})
}

// TestCut: what is cut fits at all times; and a wish that fits whole is not cut.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAccount(t)
		of := a.Members[rapid.SampledFrom(a.names()).Draw(t, "of")]
		wish := drawEnvelope(t)
		wish.Level = max(0, wish.Level)
		got := a.cut(of, 0, 100, wish)
		fits := func(e Envelope) bool {
			ok := true
			a.rooms(of, 0, 100, func(room, ms int64) {
				if use := e.within(a.Rules, of.Parts[0], ms); use > 0 && use > room {
					ok = false
				}
			})
			return ok
		}
		if !fits(got) {
			t.Fatalf("%+v was cut to %+v, which does not fit", wish, got)
		}
		if got.Level > wish.Level || got.Rate > wish.Rate || got.Left > wish.Left {
			t.Fatalf("%+v was cut to %+v, which is more", wish, got)
		}
		// Where there is less than no room, the level is as far below zero, also where nothing
		// would be used by then.
		under := func(e Envelope) bool {
			ok := true
			a.rooms(of, 0, 100, func(room, ms int64) {
				ok = ok && e.Level+grown(of.Parts[0], e.Rate, min(ms, e.Left), a.Rules.window()) <= room
			})
			return ok
		}
		beat := a.Rules.Beat.Milliseconds()
		if wish.within(a.Rules, of.Parts[0], beat) > 0 && under(wish) && got != wish {
			t.Fatalf("%+v fits, and was cut to %+v", wish, got)
		}
		if more := (Envelope{got.Level + 1, got.Rate, got.Left}); got.Left > 0 && got.Level < wish.Level && under(more) {
			t.Fatalf("%+v was cut to %+v, though one more fits", wish, got)
		}
	})
}

// TestExactlyOnce: whatever is lost, late and double, after the first answer that comes
// the account has booked exactly what the pool has, each stretch in a slot in which it
// was or a later one. Of a stretch that has left the pool's Window it has what was told last.
func TestExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := tiny(6, 6)
		a := NewAccount(rules, 5000, Options{Fresh: true})
		n := NewNode(Config{Name: "n", Instance: "i", Rules: rules})
		clock := func(now time.Time) int64 { return 5000 + now.Sub(t0).Milliseconds() }
		now := t0
		pool := map[time.Time]int64{}     // by end
		reported := map[time.Time]int64{} // the same, as the last beat told it once the stretch had ended
		var mail []*Beat
		lost := false
		beat := func() *Beat {
			r := &Report{Limits: Amounts{1000, 0}}
			for end, cost := range pool {
				if now.Sub(end) >= rules.Window {
					continue
				}
				if !end.After(now) {
					reported[end] = cost
				}
				if cost > 0 {
					r.Bookings = append(r.Bookings, escrow.Booking{End: end, Cost: cost})
				}
			}
			return n.Step(now, r)[0].(Send).Beat
		}
		deliver := func(b *Beat, answered bool) {
			r := a.Beat(clock(now), "", 0, b)
			if answered {
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "back")) * time.Millisecond)
				n.Step(now, &r)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 80).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 5:
				if rapid.IntRange(0, 5).Draw(t, "loss") == 0 {
					a = NewAccount(rules, clock(now), Options{})
					lost = true
				}
			case 0:
				if n.joined {
					pool[now.Truncate(30*time.Millisecond).Add(30*time.Millisecond)] += rapid.Int64Range(1, 5).Draw(t, "cost")
				}
			case 1:
				end := now.Truncate(30 * time.Millisecond)
				if now.Sub(end) < rules.Window && pool[end] > 0 {
					pool[end] -= rapid.SampledFrom([]int64{1, pool[end]}).Draw(t, "refund")
				}
			case 2:
				mail = append(mail, beat())
			case 3, 4:
				if len(mail) > 0 {
					deliver(mail[rapid.IntRange(0, len(mail)-1).Draw(t, "letter")], rapid.Bool().Draw(t, "answered"))
				}
			}
		}
		for range 3 { // a first answer may be that all is to be told
			deliver(beat(), true)
		}
		at := clock(now)
		deliver(beat(), true)
		if !n.joined {
			t.Fatal("the node never joined")
		}
		want := int64(0)
		own := a.Members["n"].Booked
		got := own.sum(math.MinInt64, math.MaxInt64)[0]
		sure := int64(0)
		for end, cost := range pool {
			if slot := floorDiv(min(clock(end), at), rules.slot()); clock(end) > at-rules.window() {
				sure += cost
				if later := own.sum(slot, math.MaxInt64)[0]; later < cost {
					t.Fatalf("%d used in slot %d are not booked there or later: %v", cost, slot, own)
				}
			}
			if now.Sub(end) >= rules.Window {
				// The pool tells of it no more. It stays in the account as it was told last, without a refund that came
				// after that, until the account's coarser slot has left the Window as well.
				cost = reported[end]
			}
			want += cost
		}
		if got < sure || got > want {
			t.Fatalf("%d is booked, of %d that were used, %d of them surely within the Window", got, want, sure)
		}
		all := a.Booked.sum(math.MinInt64, math.MaxInt64)[0]
		if all < got || !lost && all > got { // an account that is restored also has what others may have used
			t.Fatalf("%d is booked of all nodes, and %d of the only one", all, got)
		}
	})
}

// TestLateRefund: a refund between the last beat that tells of a stretch and the end of the pool's Window is never
// told. The account keeps what it was told, and only until that has left its own Window.
func TestLateRefund(t *testing.T) {
	rules := tiny(6, 60)
	now := t0
	clock := func() int64 { return 5000 + now.Sub(t0).Milliseconds() }
	a := NewAccount(rules, clock(), Options{Fresh: true})
	n := NewNode(Config{Name: "n", Instance: "i", Rules: rules})
	beat := func(booked ...escrow.Booking) int64 {
		reply := a.Beat(clock(), "", 0, n.Step(now, &Report{Limits: Amounts{100}, Bookings: booked})[0].(Send).Beat)
		n.Step(now, &reply)
		return a.Booked.sum(math.MinInt64, math.MaxInt64)[0]
	}
	beat() // it joins
	used := now
	if got := beat(escrow.Booking{End: used, Cost: 7}); got != 7 {
		t.Fatalf("%d is booked of 7", got)
	}
	now = used.Add(rules.Window - 1)
	if got := beat(escrow.Booking{End: used, Cost: 5}); got != 5 {
		t.Errorf("%d is booked after a refund that was told, want 5", got)
	}
	// The other 5 are given back, and the stretch leaves the pool's Window.
	now = used.Add(rules.Window)
	if got := beat(); got != 5 {
		t.Errorf("%d is booked after a refund that was not told, want 5", got)
	}
	now = now.Add(2 * rules.Window / time.Duration(rules.Slots))
	if got := beat(); got != 0 {
		t.Errorf("%d is still booked two slots later", got)
	}
}

// TestAllTold: what was booked of a node is gone if the node tells all, and does not tell
// of that any more.
func TestAllTold(t *testing.T) {
	rules := tiny(6, 6)
	n := NewNode(Config{Name: "n", Instance: "i", Rules: rules})
	beat := func(cost int64) *Beat {
		r := &Report{Limits: Amounts{100}}
		if cost > 0 {
			r.Bookings = []escrow.Booking{{End: t0, Cost: cost}}
		}
		return n.Step(t0, r)[0].(Send).Beat
	}
	joined := NewAccount(rules, 5000, Options{Fresh: true}).Beat(5000, "", 0, beat(0))
	n.Step(t0, &joined)
	a := NewAccount(rules, 6000, Options{})
	resend := a.Beat(6000, "", 0, beat(7))
	n.Step(t0, &resend)
	for _, cost := range []int64{7, 0, 3} { // none of these is answered
		b := beat(cost)
		a.Beat(6000, "", 0, b)
		if got := a.Booked.sum(math.MinInt64, math.MaxInt64)[0]; !b.Full || got != cost {
			t.Errorf("%d is booked, all that was told is %d (all: %t)", got, cost, b.Full)
		}
	}
}

// moments are those of a stretch at which to look: now and then, and the last before an
// allowance ends.
func moments(from, to, end time.Duration) []time.Duration {
	out := []time.Duration{from}
	for at := from; at < to; at += 37 * time.Millisecond {
		out = append(out, at)
	}
	if from < end && end < to {
		out = append(out, end)
	}
	return append(out, to)
}

// TestDrift: a node whose clock runs fast, or slow, by a part in a thousand never uses
// more of a grant than it is charged for, at any time, nor after it is thought expired.
func TestDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		rate := 1 + float64(rapid.SampledFrom([]int{-1000, -999, 0, 500, 1000}).Draw(t, "ppm"))/1e6
		a := NewAccount(rules, 1_000_000, Options{Fresh: true})
		n := NewNode(Config{Name: "n", Instance: "i", Rules: rules})
		real := time.Duration(0)
		own := func(real time.Duration) time.Time { return t0.Add(time.Duration(float64(real) * rate)) }
		clock := func(real time.Duration) int64 { return 1_000_000 + real.Milliseconds() }
		way := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 99_500 * time.Microsecond, 400 * time.Millisecond})
		next := rapid.SampledFrom([]time.Duration{time.Millisecond, 900 * time.Millisecond, 1003 * time.Millisecond, 3500 * time.Millisecond})
		const limit = MaxLimit
		grants := rapid.SampledFrom([]int64{0, 1, 7, 600, 599_999, limit})
		var allowed escrow.Allowance
		for range 3 {
			r := &Report{Limits: Amounts{limit}, Holding: [axes]Holding{{Left: max(0, allowed.Left(own(real), 0)), Rate: allowed.Rate, Until: allowed.Until}}}
			b := n.Step(own(real), r)[0].(Send).Beat
			start := real // of the beat
			real += way.Draw(t, "there")
			m, reply := a.receive(clock(real), "", 0, b)
			reply.Grant[0] = a.cut(m, 0, limit, Envelope{grants.Draw(t, "level") / 100, grants.Draw(t, "rate"), rules.ttl()})
			a.answered(m, reply)
			real += way.Draw(t, "back")
			for _, x := range n.Step(own(real), &reply) {
				if x, ok := x.(Allow); ok && x.Axis == 0 {
					allowed = x.Allowance
				}
			}
			from := real
			real += next.Draw(t, "until next")
			for _, at := range moments(from, real, time.Duration(float64(allowed.Until.Sub(t0)-1)/rate)) {
				used := allowed.Left(own(at), 0)
				end := 1_000_000 + ceilDiv(int64(at), int64(time.Millisecond))
				if most := m.bound(rules, 0, elapsed(end-m.Sent)); used > most {
					t.Fatalf("%v after the beat the node may have used %d, it is charged for %d", at-start, used, most)
				}
				if used > 0 && clock(at) > m.expiry(rules) {
					t.Fatalf("the node may still use %d after its grant has expired", used)
				}
			}
		}
	})
}

// TestCarried: a node that hands out all it may at once never hands out more of a grant
// than its rate comes to rounded up; and over many grants what the rates come to, but for
// one unit.
func TestCarried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		n := NewNode(Config{Name: "n", Instance: "i", Rules: rules})
		now := t0
		var allowed escrow.Allowance
		var spent int64
		due := 0.0
		for i := range 100 {
			r := &Report{Limits: Amounts{1e6}, Spent: Amounts{spent}}
			b := n.Step(now, r)[0].(Send).Beat
			sent := now
			before := spent
			rate := rapid.Int64Range(1, 3000).Draw(t, "rate")
			reply := Reply{Status: Granted, Instance: "i", Seq: b.Seq, Epoch: 1, Now: 1000 + now.Sub(t0).Milliseconds(), Grant: [axes]Envelope{{0, rate, rules.ttl()}}}
			allowed = n.Step(now, &reply)[0].(Allow).Allowance
			for range rapid.IntRange(1, 3).Draw(t, "looks") {
				now = now.Add(time.Duration(rapid.IntRange(1, 800_000).Draw(t, "us")) * time.Microsecond)
				spent += allowed.Left(now, spent)
				if most := ceilDiv(rate*now.Sub(sent).Microseconds(), rules.Window.Microseconds()); spent-before > most {
					t.Fatalf("in %v at %d a Window %d were handed out, want at most %d", now.Sub(sent), rate, spent-before, most)
				}
			}
			due += float64(rate) * now.Sub(sent).Seconds() / rules.Window.Seconds()
			if less := due - float64(spent); less < -0.001 || less > 1.01 {
				t.Fatalf("after %d grants %d were handed out, and the rates come to %.3f", i+1, spent, due)
			}
		}
	})
}

// TestOtherMemory: what was told to a memory that is lost does not count as told to the
// next one.
func TestOtherMemory(t *testing.T) {
	a := NewAccount(tiny(5, 2), 10_000, Options{})
	b := &Beat{Node: "n", Instance: "i", Full: true, Seq: 5, Epoch: a.Epoch - 1, Limits: Amounts{100}}
	if r := a.Beat(10_000, "", 1, b); r.Status != Resend {
		t.Errorf("all that was told to another memory is answered %q, want %q", r.Status, Resend)
	}
	b.Seq = 6
	b.Epoch = a.Epoch
	if r := a.Beat(10_000, "", 1, b); r.Status != Granted {
		t.Errorf("the only process there may be has told all, and is answered %q", r.Status)
	}
}

// TestBegin: a new memory grants at once where it is the first, and as many nodes as there
// are at most run side by side; else only when so many have told all that ran long before.
func TestBegin(t *testing.T) {
	rules := tiny(5, 2)
	for _, c := range []struct {
		what  string
		beats string // of which node, in turn; a dot is a loss of all, a comma one that is known
		want  Status
	}{
		{"one of two", "aa", Learning},
		{"two, the second of which may be no more", "aba", Learning},
		{"two, the first of which may be no more", "aabb", Learning},
		{"two side by side", "abab", Granted},
		{"two side by side, and one that was before", "caabab", Granted},
		{"both after a loss", "abab.aabbab", Granted},
		{"one after a loss, and a new one", "abab.aacac", Learning},
		{"a new one after a loss, and one that knows", "abab.ccaac", Learning},
		{"new ones after a loss of which nobody knows", "abab.cdcd", Granted},
		{"new ones after a loss that is known", "abab,cdcd", Learning},
		{"new ones, and one that knows has no time to tell", "abab.cdacd", Learning},
	} {
		now := t0
		server := 0
		clock := func() int64 { return 10_000 + now.Sub(t0).Milliseconds() }
		a := NewAccount(rules, clock(), Options{Incarnation: "0"})
		nodes := map[rune]*Node{}
		var r Reply
		for _, name := range c.beats {
			now = now.Add(10 * time.Millisecond)
			if name == '.' || name == ',' {
				now = now.Add(3 * rules.Window)
				server++
			}
			if name == '.' {
				a = NewAccount(rules, clock(), Options{Incarnation: fmt.Sprint(server)})
			}
			if name == '.' || name == ',' {
				continue
			}
			n := nodes[name]
			if n == nil {
				n = NewNode(Config{Name: string(name), Instance: string(name), Rules: rules})
				nodes[name] = n
			}
			r = a.Beat(clock(), fmt.Sprint(server), 2, n.Step(now, &Report{Limits: Amounts{100}})[0].(Send).Beat)
			n.Step(now, &r)
		}
		if r.Status != c.want {
			t.Errorf("%s (%s): the last beat is answered %q, want %q", c.what, c.beats, r.Status, c.want)
		}
	}
}

// TestHostile: no beat, whatever it says, makes the account fail, remember without bound,
// or give others more than there is.
func TestHostile(t *testing.T) {
	wild := rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1e12, -1, 0, 1, 999, 1e11, 1e12, math.MaxInt64 - 1, math.MaxInt64})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) int64 { return wild.Draw(t, what) }
		amounts := func(what string) Amounts { return Amounts{draw(what), draw(what)} }
		a := NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})
		good := &Beat{Node: "good", Instance: "g", Join: true, Full: true, Seq: 1, Limits: Amounts{600_000, 60}, Burst: Amounts{100_000, 10}, Waiting: Amounts{1e6, 100}, Ready: Amounts{1000, 1}, Curve: []Point{{1, [axes]float64{1e6, 100}}}}
		a.Beat(1_000_000, "", 0, good)
		for i := range rapid.IntRange(1, 8).Draw(t, "beats") {
			b := &Beat{
				Node: "bad", Instance: fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "instance")), Join: rapid.Bool().Draw(t, "join"), Full: rapid.Bool().Draw(t, "full"),
				Seq: draw("seq"), Acked: draw("acked"), Epoch: a.Epoch, Limits: Amounts{600_000, 60}, Burst: amounts("burst"), Sent: draw("sent"), Joined: draw("joined"), Past: draw("past"),
				Held: amounts("held"), Waiting: amounts("waiting"), Ready: amounts("largest"),
				Curve: []Point{{math.NaN(), [axes]float64{math.Inf(1), math.NaN()}}, {rapid.Float64().Draw(t, "level"), [axes]float64{rapid.Float64().Draw(t, "use"), 1}}},
			}
			for k := range b.Holding {
				b.Holding[k] = Envelope{draw("level"), draw("rate"), draw("left")}
			}
			for range 10 {
				b.Booked = append(b.Booked, Booked{draw("slot"), amounts("used")}, Booked{4000 + rapid.Int64Range(-1000, 2000).Draw(t, "slot"), amounts("used")})
			}
			a.Beat(1_000_000+int64(i)*100, "", 0, b)
			good.Seq = good.Seq + 1
			good.Join = true
			good.Acked = 0
			good.Epoch = a.Epoch
			r := a.Beat(1_000_000+int64(i)*100, "", 0, good)
			for k, e := range r.Grant {
				if limit := good.Limits[k]; e.within(a.Rules, 0, a.Rules.ttl()) > limit {
					t.Fatalf("of %d, one gets %+v", limit, e)
				}
			}
			for slot := range 3 * a.Rules.Slots {
				if s := a.Booked.at(a.slotOf(a.Now) - a.Rules.Slots + slot); s[0] < 0 || s[1] < 0 {
					t.Fatalf("less than nothing is booked: %v", s)
				}
			}
			if n := len(a.Booked) + len(a.Gone) + len(a.Members["good"].Booked); n > 2000 {
				t.Fatalf("the account remembers %d slots", n)
			}
		}
	})
}

// halved is the water level found by halving what is left of the levels, sixty times.
func (a *Account) halved(capacity [axes]float64) float64 {
	fits := func(level float64) bool {
		for k := range capacity {
			sum := 0.0
			for _, name := range a.names() {
				if m := a.Members[name]; a.live(m) {
					sum += at(m.Curve, level, k)
				}
			}
			if a.limit(k) > 0 && sum > capacity[k] {
				return false
			}
		}
		return true
	}
	low := 0.0
	high := a.highest()
	if fits(high) {
		return -1
	}
	for range 60 {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// anyCurve draws one that rises, in places steeply and in others not at all.
func anyCurve(t *rapid.T) (curve []Point) {
	var p Point
	for range rapid.IntRange(0, curvePoints).Draw(t, "points") {
		p.Level += rapid.SampledFrom([]float64{0, 0.01, 1, 1, 10, 1e4}).Draw(t, "level")
		for k := range p.Use {
			p.Use[k] += rapid.SampledFrom([]float64{0, 0, 0.001, 1, 7, 1e4}).Draw(t, "use")
		}
		curve = append(curve, p)
	}
	return curve
}

// TestWater: wherever it was last, the water comes to stand where halving has it, and what is used
// there is all there is.
func TestWater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAccount(DefaultRules(), 1_000_000, Options{})
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			m := &Member{Seen: a.Now, Limits: Amounts{1, 1}, Curve: anyCurve(t)}
			if rapid.IntRange(0, 9).Draw(t, "silent") == 0 {
				m.Seen -= 10_000
			}
			a.Members[fmt.Sprint(i)] = m
		}
		if rapid.Bool().Draw(t, "one axis") {
			for _, m := range a.Members {
				m.Limits[escrow.Requests] = 0
			}
		}
		all := a.uses(a.names(), a.highest()).use
		var capacity [axes]float64
		for k := range capacity {
			capacity[k] = all[k] * rapid.SampledFrom([]float64{0, 0.001, 0.3, 0.5, 0.9, 1, 1.1, rapid.Float64Range(0.001, 1).Draw(t, "part")}).Draw(t, "capacity")
		}
		a.Level = rapid.SampledFrom([]float64{-1, 0, 1, 1000, a.highest() / 2, a.highest(), rapid.Float64Range(0, 1e8).Draw(t, "level")}).Draw(t, "last")
		got := a.water(capacity)
		want := a.halved(capacity)
		if (got < 0) != (want < 0) || math.Abs(got-want) > 1e-9*a.highest() && !a.exhausts(got, capacity) {
			t.Fatalf("of %v the water stands at %v, by halving at %v; there uses are %v and %v", capacity, got, want,
				a.uses(a.names(), got).use, a.uses(a.names(), want).use)
		}
	})
}

// exhausts reports whether all there is is used at a level, but for what floats lose: where curves are
// level or steep, that is so at many, or at none.
func (a *Account) exhausts(level float64, capacity [axes]float64) bool {
	uses, all, exhausted := a.uses(a.names(), level).use, a.uses(a.names(), a.highest()).use, false
	for k, use := range uses {
		lost := 1e-9 * all[k]
		if use > capacity[k]+lost && a.limit(k) > 0 {
			return false
		}
		exhausted = exhausted || use >= capacity[k]-lost
	}
	return exhausted
}

// TestObserve_Line: a line that runs dry while callers are refused counts as it was of late, and one whose callers have left does not.
func TestObserve_Line(t *testing.T) {
	for refused, want := range map[int64]float64{0: 0, 1: 36} {
		d := demand{}
		d.observe(t0, DefaultRules(), escrow.Demand{Waiting: 40, WaitingUnits: escrow.Cost{400}})
		d.observe(t0.Add(time.Second), DefaultRules(), escrow.Demand{Again: refused, Call: 1, CallUnits: escrow.Cost{10}})
		if own, tokens := math.Floor(d.own/60), math.Floor(d.with[0]/600); own != want || tokens != want {
			t.Errorf("after %d calls were refused %.0f calls are asked for, and tokens of %.0f, want %.0f", refused, own, tokens, want)
		}
	}
}
