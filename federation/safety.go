package federation

// within is the most that may be used of an envelope in so many milliseconds, by a node that has
// fractions of a unit already.
func (e Envelope) within(r Rules, parts, ms int64) int64 {
	if e.Left <= 0 {
		return 0
	}
	return max(0, e.Level+grown(parts, e.Rate, min(max(ms, 0), e.Left), r.window()))
}

// sane is the envelope cut to the most that a node can possibly have.
func (e Envelope) sane(r Rules) Envelope {
	return Envelope{min(max(e.Level, -maxBooked), maxBooked), min(max(e.Rate, 0), MaxLimit), min(max(e.Left, 0), r.ttl())}
}

// grown is the amount to which a rate comes in so many milliseconds, together with fractions of a unit: in
// whole units, since less cannot be used.
func grown(parts, rate, ms, window int64) int64 { return floorDiv(parts+rate*ms, window) }

// bound is the most that a node may use of an axis within so many milliseconds of its
// last beat.
func (m *Member) bound(r Rules, k int, ms int64) int64 {
	return max(m.Holding[k].within(r, m.Parts[k], ms), m.Grant[k].within(r, m.Parts[k], ms))
}

// elapsed is how much time can have passed by a node's clock, if ms have passed by the store's.
func elapsed(ms int64) int64 { return ms + ceilDiv(ms, drift-1) }

// expiry is the latest time at which a node may use anything that it is known to have. It counts
// from the receipt of its beat, which was sent by then.
func (m *Member) expiry(r Rules) int64 {
	left := int64(0)
	for k := range axes {
		for _, e := range []Envelope{m.Holding[k], m.Grant[k]} {
			if e.within(r, m.Parts[k], e.Left) > 0 {
				left = max(left, e.Left)
			}
		}
	}
	return m.Seen + left
}

// ahead is for how many slots from now on anything may be booked: plans reach a Window ahead, and a
// node may be wrong about the store's clock.
func (r Rules) ahead() int64 { return 2 * (r.Slots + r.ttl()/r.slot() + 1) }

// rooms tells, slot by slot, how much is left of a limit for one node at the end of the slot, and how
// long after the node's last beat that may be by its clock: in the slots up to that one it may use
// so much, whatever all others do with their grants. Usage also counts in the Slots
// after it, so a limit that is kept here is kept in every rolling Window. Beyond the last slot that
// is told, bookings and grants of others only decrease.
func (a *Account) rooms(of *Member, k int, limit int64, tell func(room, ms int64)) {
	r := a.Rules
	now := a.slotOf(a.Now)
	last := now + r.ttl()/r.slot() + 1
	for _, b := range []book{a.Booked, a.Gone} {
		if n := len(b); n > 0 {
			last = max(last, b[n-1].Slot)
		}
	}
	held := int64(0)
	past := now
	for _, m := range a.Members {
		held += m.Held[k]
		past = max(past, m.Past)
	}
	others := int64(0)
	steps := a.others(of, k, now, last)
	used := a.Booked.sum(now-r.Slots, now-1)[k]
	gone := a.Gone.sum(now-r.Slots, last)[k]
	from, _ := a.Booked.find(now - r.Slots)
	to, _ := a.Booked.find(now)
	for slot := now; slot <= last; slot++ {
		if to < len(a.Booked) && a.Booked[to].Slot == slot {
			used += a.Booked[to].Used[k]
			to++
		}
		for from < len(a.Booked) && a.Booked[from].Slot < slot-r.Slots {
			used -= a.Booked[from].Used[k]
			from++
		}
		if slot > now {
			gone -= a.Gone.at(slot - r.Slots - 1)[k]
		}
		others += steps[slot-now]
		taken := used + held + gone + others
		if slot < past {
			taken += a.late(slot, k)
		}
		tell(limit-taken, elapsed((slot+1)*r.slot()-of.Sent))
	}
}

// others are the steps by which the most that all nodes but one may use changes from slot to slot. Most are
// zero: a node's envelopes end within few slots, and its grant is charged at its expiry, so that
// it counts until that has left the Window.
func (a *Account) others(of *Member, k int, now, last int64) []int64 {
	r := a.Rules
	steps := make([]int64, last-now+2)
	for _, m := range a.Members {
		if m == of {
			continue
		}
		counts := min(last, a.slotOf(m.expiry(r))+r.Slots)
		longest := max(m.Holding[k].Left, m.Grant[k].Left)
		before := int64(0)
		for slot := now; slot <= counts; slot++ {
			ms := elapsed((slot+1)*r.slot() - m.Sent)
			may := m.bound(r, k, ms)
			steps[slot-now] += may - before
			before = may
			if ms >= longest {
				break
			}
		}
		if counts >= now {
			steps[counts+1-now] -= before
		}
	}
	return steps
}

// late is the usage up to a slot that is booked after it, because nodes do not know the store's
// clock exactly.
func (a *Account) late(slot int64, k int) (sum int64) {
	for _, m := range a.Members {
		if m.Past > slot {
			sum += m.Booked.sum(slot+1, m.Past)[k]
		}
	}
	return sum
}

// cut makes an envelope so small that the node's usage fits the limit at the end of every
// slot. It lowers the level first, below zero if need be: then the node has to wait until the rate
// has made up for it. If the rate itself is too high, it takes the part of it by which the node
// gets most within a beat.
func (a *Account) cut(of *Member, k int, limit int64, e Envelope) Envelope {
	e = Envelope{min(e.Level, limit), min(e.Rate, limit), e.Left}.sane(a.Rules)
	type look struct{ room, ms int64 }
	var looks []look
	a.rooms(of, k, limit, func(room, ms int64) { looks = append(looks, look{room, min(ms, e.Left)}) })
	var best Envelope
	most := int64(0)
	for part := int64(4); part >= 0; part-- {
		try := Envelope{e.Level, e.Rate * part / 4, e.Left}
		for _, l := range looks {
			try.Level = min(try.Level, l.room-grown(of.Parts[k], try.Rate, l.ms, a.Rules.window()))
		}
		if gets := of.gets(a.Rules, k, try); gets > most {
			best = try
			most = gets
		}
	}
	return best
}

// gets is how much a node gets of an envelope within a beat, in parts of a unit: an envelope that takes
// longer to make a whole unit is not worthless.
func (m *Member) gets(r Rules, k int, e Envelope) int64 {
	if e.Left <= 0 || e.Level < -MaxLimit {
		return 0
	}
	return e.Level*r.window() + m.Parts[k] + e.Rate*min(r.Beat.Milliseconds(), e.Left)
}
