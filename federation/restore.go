package federation

import "slices"

// before is the latest digest of the memory before: it contains all that earlier ones did. Age is as of when the new memory
// began.
type before struct {
	Digest     digest
	Age, Shift int64
}

// contained is a member's copy of the memory of an epoch.
type contained struct {
	Epoch int64
	Copy  Copy
}

// within is a copy without its digest, in which what no node would tell is bounded.
func (c *Copy) within(r Rules) Copy {
	return Copy{
		Age: min(max(c.Age, 0), 2*r.window()), Shift: min(max(c.Shift, -maxDigested), maxDigested),
		Booked: c.Booked[:min(len(c.Booked), int(r.Slots+r.ahead())+1)],
		Held:   within(0, c.Held, maxBooked), Refundable: within(0, c.Refundable, maxBooked),
		May: within(0, c.May, maxBooked), Refunded: within(0, c.Refunded, maxBooked), Former: c.Former, Journal: c.Journal.within(r),
	}
}

// copied takes in a member's copy of the memory before.
func (a *Account) copied(m *Member, c *Copy) {
	if c == nil || a.Now >= a.Learning {
		return
	}
	d, ok := decodeDigest(c.Digest, a.Rules)
	if !ok || d.Epoch == a.Epoch {
		return
	}
	m.Copy = &contained{d.Epoch, c.within(a.Rules)}
	if a.Before == nil || d.compare(&a.Before.Digest) > 0 {
		passed := max(0, m.Sent-a.Born)
		passed -= ceilDiv(2*passed, drift)
		a.Before = &before{Digest: *d, Age: max(0, m.Copy.Copy.Age-passed), Shift: m.Copy.Copy.Shift}
	}
}

// restored ends learning if there is a digest of the memory before. It counts all that others than those who
// have told may have used: their part of the digest, and grants since then. expect is how many processes run at the
// same time at most; if as many have been there since the digest was made, nobody else was granted anything since.
func (a *Account) restored(expect int) bool {
	if a.Before == nil {
		return false
	}
	rest, refunded, there := a.untold()
	all := expect > 0 && there >= expect
	if !all && a.Now < a.expired() {
		return false
	}
	limits := a.Before.limits(a.highestLimits())
	may := a.Before.since(a.Rules, limits, refunded)
	if all {
		may = rest.May
	}
	shift := ceilDiv(a.Before.Shift, a.Rules.slot())
	for _, x := range rest.Booked {
		a.count(x.Slot+shift, upTo(limits, x.Used))
	}
	a.count(a.slotOf(a.expired()), upTo(limits, plus(rest.Held, may)))
	a.Capped = limits
	a.CapEnds = a.expired() + a.Rules.window() + a.Rules.slot()
	a.Learning = a.Now
	a.forgetCopies()
	return true
}

// expired is when all that the memory before granted has expired.
func (a *Account) expired() int64 { return a.Born + a.Rules.ttl() }

// forgetCopies drops all knowledge of the memory before, which has served its purpose.
func (a *Account) forgetCopies() {
	if a.Before == nil {
		return
	}
	a.Before = nil
	for _, m := range a.Members {
		m.Copy = nil
	}
}

// untold is the digest without those who have told. It also returns how much may have been refunded since then, and
// how many nodes were there by then and are still.
func (a *Account) untold() (rest digest, refunded Amounts, there int) {
	rest = a.Before.Digest
	rest.Booked = slices.Clone(rest.Booked)
	for _, m := range a.Members {
		c := m.Copy
		if c == nil || c.Epoch != rest.Epoch {
			continue // its part of the digest is unknown
		}
		if !c.Copy.Former {
			there++
		}
		for _, x := range c.Copy.Booked {
			rest.Booked.set(x.Slot, within(0, minus(rest.Booked.at(x.Slot), within(0, x.Used, maxBooked)), maxBooked))
		}
		rest.Held = minus(rest.Held, c.Copy.Held)
		rest.Refundable = minus(rest.Refundable, c.Copy.Refundable)
		rest.May = minus(rest.May, c.Copy.May)
		refunded = plus(refunded, c.Copy.Refunded)
	}
	rest.Held = within(0, rest.Held, maxBooked)
	rest.May = within(0, rest.May, maxBooked)
	return rest, plus(refunded, within(0, rest.Refundable, maxBooked)), there
}

// limits are the highest of those that nodes know now and that of the digest.
func (b *before) limits(known Amounts) Amounts {
	for k := range known {
		known[k] = max(known[k], min(b.Digest.Limits[k], MaxLimit))
	}
	return known
}

// upTo is usage up to the limits, where there are any: as much as a limit leaves no room in its Window, so that it does not
// matter what a faulty node makes up beyond that.
func upTo(limits, used Amounts) Amounts {
	for k, limit := range limits {
		if limit > 0 {
			used[k] = min(used[k], limit)
		}
	}
	return used
}

// since is the most that may have been used of grants since the digest was made. At each of them all that is booked in the
// Window before its end, all that is held, and all that may still be used was within the limit.
func (b *before) since(r Rules, limits, refunded Amounts) (most Amounts) {
	end := floorDiv(b.Digest.Now+b.Age+elapsed(r.ttl()), r.slot())
	counts := plus(b.Digest.Held, b.Digest.Booked.sum(end-r.Slots+1, floorDiv(b.Digest.Now, r.slot())))
	for k := range most {
		limit := limits[k]
		if b.Digest.Limits[k] == 0 { // nothing was kept within it
			counts[k] = 0
		}
		most[k] = min(limit, max(0, limit-counts[k])+refunded[k])
	}
	return most
}

// count adds usage of unknown nodes, in the latest slot in which it can have been.
func (a *Account) count(slot int64, used Amounts) {
	now := a.slotOf(a.Now)
	slot = min(slot, now+a.Rules.ahead())
	switch {
	case slot < now-a.Rules.Slots:
	case slot <= now:
		a.Booked.add(slot, used)
	default:
		a.Gone.add(slot, used)
	}
}
