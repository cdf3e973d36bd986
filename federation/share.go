package federation

import "math"

// This file decides how much each node gets. None of it is needed for the
// limit to be kept: that is the work of cut. Products of floats are rounded, by float64(), before
// they are added to anything: else some processors do both at once, and come to something else
// than a store that does not.

// Fill is the amount that an idle pool may hand out at once: it rises by the capacity, or the limit while nobody is short, and falls by
// usage.
type Fill struct{ Level, Rate, At int64 }

// fill lets the levels rise by the limits, and fall by usage.
func (a *Account) fill(used Amounts) {
	for k := range a.Fill {
		f := &a.Fill[k]
		limit := a.limit(k)
		burst := int64(0)
		for _, m := range a.Members {
			burst = max(burst, m.Burst[k])
		}
		second := limit * 1000 / a.Rules.window()
		if f.At == 0 { // a second at the start, and not a burst: it may be a restart
			f.At = a.Now
			f.Level = second
		}
		rise := f.Rate * min(a.Now-f.At, a.Rules.window())
		f.Level = min(f.Level+rise/a.Rules.window(), max(burst, second)) - used[k]
		f.At = a.Now - rise%a.Rules.window()/max(1, f.Rate) // less than a unit is for the next time
	}
}

// limit is the least that any node heard of knows, less the most that any wants to be
// withheld; 0 is none.
func (a *Account) limit(k int) int64 {
	limit := int64(0)
	reserve := int64(0)
	for _, m := range a.Members {
		if !a.live(m) || m.Limits[k] <= 0 {
			continue
		}
		if limit == 0 || m.Limits[k] < limit {
			limit = m.Limits[k]
		}
		reserve = max(reserve, m.Reserve[k])
	}
	limit = max(limit-reserve, min(limit, 1))
	if capped := a.Capped[k]; capped > 0 && a.Now < a.CapEnds {
		limit = min(limit, capped)
	}
	return limit
}

// grant is a node's grant for the next while.
func (a *Account) grant(m *Member) [axes]Envelope {
	var capacity, shares [axes]float64
	for k := range capacity {
		capacity[k] = a.capacity(k)
	}
	a.Level = a.water(capacity)
	level := a.Level
	if level < 0 {
		level = a.highest()
	}
	for k := range shares {
		shares[k] = a.portion(m, k, level, capacity[k])
		a.Fill[k].Rate = whole(capacity[k])
		if a.Level < 0 { // a saved rate needs no string, as in a pool's own pace: saved keeps to the room
			a.Fill[k].Rate = whole(a.steady(k))
		}
	}
	var g [axes]Envelope
	for k := range g {
		limit := a.limit(k)
		if limit == 0 {
			continue
		}
		e := Envelope{Rate: whole(math.Ceil(shares[k])), Left: a.Rules.ttl()}
		part := shares[k] / max(1, capacity[k])
		e.Level = a.level(m, k, e.Rate, min(1, part))
		if saved := a.saved(k); saved > 0 { // others may use the same savings: what is used empties them, and the rest is granted anew with each beat
			// A pool of one gateway hands out at once what calls give back. Here it would come with the next beat.
			e.Level = max(e.Level, m.Waiting[k], min(m.Ready[k], saved+m.Refundable[k]))
		} else {
			e = a.fair(m, k, limit, e, part)
		}
		g[k] = a.cut(m, k, limit, e)
	}
	return g
}

// capacity is how much of an axis may be handed out a Window from now on, by all: the
// steepest line that stays under the room that there will be, as a pool's own pace draws it
// (package escrow). What is planned for the time to come is not taken off, for what is
// handed out from now on will be used as late as that: taken off, four nodes under
// production use 88 % of a limit, and not 96.
func (a *Account) capacity(k int) float64 {
	r := a.Rules
	limit := a.limit(k)
	now := a.slotOf(a.Now)
	room := a.room(k)
	best := a.steady(k)
	second := max(1, 1000/r.slot()) // in slots
	seconds := r.Slots / second
	for sec := int64(1); sec <= seconds; sec++ {
		leaving := now - r.Slots + (sec-1)*second
		room += a.Booked.sum(leaving, leaving+second-1)[k]
		if sec >= 2 {
			best = min(best, (float64(room)-0.5*float64(limit)/float64(r.Slots))*float64(seconds)/float64(sec))
		}
	}
	return max(0, best)
}

// steady is the capacity of a limit that is always used in full.
func (a *Account) steady(k int) float64 {
	return float64(a.limit(k)) * float64(a.Rules.Slots) / float64(a.Rules.Slots+1)
}

// fair lowers the level of an envelope until the node keeps to its part of the room that
// there will be for all. Else cut decides where there is too little, as where what runs
// will still produce a lot: for whoever comes last, whose part the others have. Four
// nodes under production: 0.4 % of the usage goes to others than it should, and 2.4 %
// without.
func (a *Account) fair(of *Member, k int, limit int64, e Envelope, part float64) Envelope {
	r := a.Rules
	now := a.slotOf(a.Now)
	room := limit - a.Booked.sum(now-r.Slots-1, now-1)[k]
	for _, m := range a.Members {
		room -= m.Held[k]
	}
	for slot := now; slot <= now+r.ttl()/r.slot()+1; slot++ {
		room += a.Booked.at(slot - r.Slots - 1)[k] - a.Booked.at(slot)[k]
		own := whole(part * float64(max(0, room)))
		e.Level = min(e.Level, own-grown(of.Parts[k], e.Rate, min(e.Left, (slot+1)*r.slot()-of.Sent), r.window()))
	}
	return e
}

// ahead is a node's probable usage since its last beat, together with all that it may use at once.
func (m *Member) ahead(r Rules, k int, now int64) int64 {
	e := m.Grant[k]
	if e.Left <= 0 {
		e = m.Holding[k]
	}
	return e.within(r, m.Parts[k], now-m.Sent)
}

// portion is a node's part of an axis at a level: what its callers use then, and a part of what
// nobody asks for. That is divided as the whole is, which counts by heads so far as nobody asks for
// it: a pool that is hardly used lies ready evenly, whoever used it last.
func (a *Account) portion(of *Member, k int, level, capacity float64) float64 {
	sum := 0.0
	live := 0
	for _, name := range a.names() {
		if m := a.Members[name]; a.live(m) {
			sum += at(m.Curve, level, k)
			live++
		}
	}
	own := at(of.Curve, level, k)
	spare := max(0, capacity-sum)
	return own + float64(spare/max(1, capacity)*(own+spare/float64(live)))
}

// room is how much of a limit is neither used nor about to be.
func (a *Account) room(k int) int64 {
	now := a.slotOf(a.Now)
	room := a.limit(k) - a.Booked.sum(now-a.Rules.Slots, now)[k]
	for _, m := range a.Members {
		room -= m.Held[k] + m.ahead(a.Rules, k, a.Now)
	}
	return room
}

// saved are the savings of an axis, so far as there is room for them, beyond a second and all that waits. If there are any nobody is short, so each
// node has ready what it wants, whoever asks for how much.
func (a *Account) saved(k int) int64 {
	saved := min(a.Fill[k].Level, a.room(k)) - a.limit(k)*1000/a.Rules.window()
	for _, m := range a.Members {
		if a.live(m) {
			saved -= m.Waiting[k]
		}
	}
	return saved
}

// level is the amount that a node may use at once if nothing is saved: its rest, up to the amount that it would have
// ready and a moment of its rate; and if that is not enough for what waits, of what the pool has left
// over beside the calls that are about to go elsewhere: all that waits, if that leaves a second, or else the
// node's part of it. A part that is less than a call lets nothing go.
func (a *Account) level(of *Member, k int, rate int64, part float64) int64 {
	had := min(max(0, of.Holding[k].Level), of.Ready[k]+rate/240)
	if of.Holding[k].Left <= 0 {
		had = 0
	}
	spare := a.Fill[k].Level - had
	for _, m := range a.Members {
		if m != of && a.live(m) && m.Grant[k].Level >= m.Waiting[k] {
			spare -= m.Waiting[k] // it is about to use it
		}
	}
	want := of.Waiting[k] - had
	if want > spare-a.limit(k)*1000/a.Rules.window() {
		want -= rate * a.Rules.Beat.Milliseconds() / a.Rules.window()
		if a.Level >= 0 { // others want it, too
			spare = whole(float64(max(0, spare)) * part)
		}
	}
	return had + max(0, min(want, spare))
}
