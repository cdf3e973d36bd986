package federation

// After a restart of everything no node is there that had a grant of the memory before. But nodes that keep journals know
// exactly what their earlier processes used. If as many of them as ever run at the same time come back, each of which had run for
// a Window, then nobody else used anything in that time: what they tell is all there is, and the digests are not
// needed. While they were away another node may have come and gone that is none of them. The number of nodes says
// that there is none, but it is believed for no longer than a start takes: a journal is as good as none if the digest beside it is
// older than half a Window, or of a node of another name: one that is restarted twice would else be two of them.
//
// A process may end between any two steps. A call is in the journal before it is sent, so whatever was used is told,
// reported or not. A digest that was no longer written down is only older. If the process ends again before
// this memory grants, the next one tells the same, and what this one has used. If it ends later, all of it is in the account. If the
// account is restored from a digest before all are there, all that they used since is part of what may have been granted,
// and their journals are not booked.

// within is a journal that is no longer than what a node would tell.
func (j *Journal) within(r Rules) *Journal {
	if j == nil {
		return nil
	}
	return &Journal{Joined: j.Joined, Booked: j.Booked[:min(len(j.Booked), int(r.Slots+r.ahead())+1)]}
}

// toldFrom is the time since when a member has run, in one process after the other, and told all that it used.
func (a *Account) toldFrom(m *Member) int64 {
	if m.Copy == nil {
		return m.Joined
	}
	c := &m.Copy.Copy
	if c.Journal == nil || c.Age > a.Rules.window()/2 {
		return m.Joined
	}
	return min(m.Joined, c.Journal.Joined)
}

// bookJournals books what earlier processes of members used.
func (a *Account) bookJournals() {
	limits := a.highestLimits()
	now := a.slotOf(a.Now)
	for _, m := range a.Members {
		if m.Copy == nil || m.Copy.Copy.Journal == nil {
			continue
		}
		for _, x := range m.Copy.Copy.Journal.Booked {
			a.count(min(x.Slot, now+a.Rules.ahead()), upTo(limits, within(0, x.Used, maxBooked)), now)
		}
	}
}
