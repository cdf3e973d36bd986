package federation

import "slices"

// before is the latest digest of the memory before: it contains all that earlier ones did. Age is as of when the new memory
// began.
type before struct {
	Digest     digest
	Age, Shift int64
	// Counted is what counts as used by those who have not told, as of the slot CountedIn, in which the account was restored. It is kept
	// until all of it has left the Window, because some may tell late. Late says that one has, and that it is to be counted anew.
	Counted   book
	CountedIn int64
	Late      bool
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
	if c == nil || a.Now >= a.Learning && a.Before == nil {
		return
	}
	d, ok := decodeDigest(c.Digest, a.Rules)
	if !ok || d.Epoch == a.Epoch {
		return
	}
	m.Copy = &contained{d.Epoch, c.within(a.Rules)}
	next := before{}
	if a.Before != nil {
		next = *a.Before
	}
	if a.Before == nil || d.compare(&next.Digest) > 0 {
		passed := max(0, m.Sent-a.Born)
		passed -= ceilDiv(2*passed, drift)
		next.Digest = *d
		next.Age = max(0, m.Copy.Copy.Age-passed)
		next.Shift = m.Copy.Copy.Shift
	}
	next.Late = a.Now >= a.Learning
	a.Before = &next
}

// restored ends learning if there is a digest of the memory before. It counts all that others than those who
// have told may have used: their part of the digest, and grants since then. expect is how many processes run at the
// same time at most; if as many have been there since the digest was made, nobody else was granted anything since.
// It may be repeated when others have told.
func (a *Account) restored(expect int) bool {
	if a.Before == nil {
		return false
	}
	rest, refunded, there := a.untold()
	all := expect > 0 && there >= expect
	if !all && a.Now < a.expired() {
		return false
	}
	if a.CapEnds == 0 {
		a.Capped = a.Before.limits(a.highestLimits())
		a.CapEnds = a.expired() + a.Rules.window() + a.Rules.slot()
		a.Learning = a.Now
	}
	may := a.Before.since(a.Rules, a.Capped, refunded)
	if all {
		may = rest.May
	}
	shift := ceilDiv(a.Before.Shift, a.Rules.slot())
	var used book
	for _, x := range rest.Booked {
		used.add(x.Slot+shift, upTo(a.Capped, x.Used))
	}
	used.add(a.slotOf(a.expired()), upTo(a.Capped, plus(rest.Held, may)))
	a.countUntold(used)
	return true
}

// toldLate counts anew what those used who have not told, if one of them has told after the account was restored. Else what that one used
// would count twice.
func (a *Account) toldLate(expect int) {
	switch {
	case a.Before == nil:
	case a.Now >= a.CapEnds:
		a.forgetCopies()
	case a.Before.Late:
		a.restored(expect)
	}
}

// countUntold puts usage of those who have not told in the place of what was counted for them before.
func (a *Account) countUntold(used book) {
	next := *a.Before
	for _, x := range next.Counted {
		a.count(x.Slot, minus(Amounts{}, x.Used), next.CountedIn)
	}
	next.Counted = nil
	next.CountedIn = a.slotOf(a.Now)
	for _, x := range used {
		slot := min(x.Slot, next.CountedIn+a.Rules.ahead())
		a.count(slot, x.Used, next.CountedIn)
		next.Counted.add(slot, x.Used)
	}
	next.Late = false
	a.Before = &next
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

// count adds usage of unknown nodes in the latest slot in which it can have been. As of now that may be later.
func (a *Account) count(slot int64, used Amounts, now int64) {
	switch {
	case slot < a.slotOf(a.Now)-a.Rules.Slots:
	case slot <= now:
		a.Booked.add(slot, used)
	default:
		a.Gone.add(slot, used)
	}
}
