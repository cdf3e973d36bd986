package parts

import "slices"

// Account is what the store of one owner's limits keeps: which process has which part of
// each. It is pure, and serves as it is where the store can run Go; where it cannot, the same
// steps run there (package federation/redis), and the conformance suite compares the two. It is
// not safe for concurrent use. The zero value is one that nobody told anything.
type Account struct {
	// Now is the latest time that was seen, in milliseconds. It never runs backwards.
	Now int64
	// Began is since when it has been told of without a break of a TTL. Before it is twice that old
	// there may be parts, and calls that run, of which it knows nothing: it was lost, or its clock has
	// jumped, and who cannot reach it for a while tries again only every other second or so.
	Began int64
	// Members are in the order in which they came.
	Members []Member
}

// Member is what is known of a process.
type Member struct {
	Instance  string
	Seq, Seen int64
	Holds     []Hold
}

// Hold is what a member has of a limit.
type Hold struct {
	Name string
	Kind Kind
	Ends int64
	// Seen is when it was told last.
	Seen       int64
	Used, Held int64
	// High is the most that the member may take for its part.
	High       int64
	Want, Need int64
	Limit      int64
	// Spare, Weight, Calm, CalmUse and Tail are of the Claim.
	Spare, Weight, Calm, CalmUse, Tail int64
	// Since is from when on Need was more than the part, without a break; 0 if it is not.
	Since int64
	// Marks are when Used came to be, of a Rolling hold that is Timed; the oldest first.
	Marks []Mark

	given int64 // what the part has to be for calls that were let in just now
}

var ttl, window = TTL.Milliseconds(), Window.Milliseconds()

// Beat takes in what a process tells at now, and answers.
func (a *Account) Beat(now int64, b *Beat) Reply {
	a.advance(now)
	m := a.member(b.Instance)
	if b.Seq <= m.Seq {
		return Reply{}
	}
	return a.answer(m, b, a.tell(m, b))
}

// advance brings the account to now.
func (a *Account) advance(now int64) {
	if a.Now == 0 || now-a.Now > ttl {
		a.Began = now
	}
	a.Now = max(a.Now, now)
	a.age()
}

// answer answers what was taken in.
func (a *Account) answer(m *Member, b *Beat, of peers) Reply {
	r := Reply{Seq: b.Seq, Parts: make([]Part, len(b.Claims))}
	for i := range b.Claims {
		h := &m.Holds[i]
		r.Parts[i] = a.grant(m, h, of[h.Name])
		if b.Timed && h.Kind == Rolling {
			h.mark(a.Now)
		} else {
			h.Marks = nil
		}
	}
	m.Holds = slices.DeleteFunc(m.Holds, func(h Hold) bool { return h.idle() || a.over(h) })
	if b.Left {
		a.bequeath(m)
	}
	return r
}

// heir is the Instance of what all who have left used of periods: kept one by one, they would
// be more with each restart of a process.
const heir = ""

// bequeath takes over what one who leaves used of periods.
func (a *Account) bequeath(m *Member) {
	var left []Hold
	m.Holds = slices.DeleteFunc(m.Holds, func(h Hold) bool {
		if h.Kind == Period {
			left = append(left, h)
		}
		return h.Kind == Period
	})
	if len(left) == 0 {
		return
	}
	to := a.member(heir)
	to.Seen = a.Now
	at := byName(to.Holds)
	for _, h := range left {
		i, there := at[h.Name]
		if !there {
			i = len(to.Holds)
			at[h.Name], to.Holds = i, append(to.Holds, Hold{Name: h.Name, Kind: Period})
		}
		x := &to.Holds[i]
		x.Seen, x.Ends, x.Used = a.Now, max(x.Ends, h.Ends), min(x.Used+h.belief(), maxSum)
		x.Want = x.Used
	}
}

// member is a process that is known, now at the latest.
func (a *Account) member(instance string) *Member {
	i := slices.IndexFunc(a.Members, func(m Member) bool { return m.Instance == instance })
	if i < 0 {
		i = len(a.Members)
		a.Members = append(a.Members, Member{Instance: instance})
	}
	return &a.Members[i]
}

// tell replaces what a member has told before. What is not told any more it has left: it has
// no part there, and only what it used counts on. It returns who has what of all that is told.
func (a *Account) tell(m *Member, b *Beat) peers {
	before, at := m.Holds, byName(m.Holds)
	m.Seq, m.Seen, m.Holds = b.Seq, a.Now, make([]Hold, 0, len(before))
	for _, c := range b.Claims {
		var was *Hold
		if i, there := at[c.Name]; there {
			was = &before[i]
		}
		m.Holds = append(m.Holds, a.told(was, c.Within()))
	}
	told := byName(m.Holds)
	for _, h := range before {
		if _, there := told[h.Name]; h.Kind != Slots && !there {
			m.Holds = append(m.Holds, Hold{Name: h.Name, Kind: h.Kind, Ends: h.Ends, Seen: h.Seen, Used: h.Used, Want: h.Used, Marks: h.Marks})
		}
	}
	return a.peers(b)
}

// told is a claim as it is kept. What the process says that it has is all that it has: it
// takes no answer to a beat before this one.
func (a *Account) told(before *Hold, c Claim) Hold {
	h := Hold{
		Name: c.Name, Kind: c.Kind, Ends: c.Ends, Seen: a.Now, Used: c.Used, Held: c.Held, High: c.Part, Need: c.Need,
		Limit: c.Limit, Weight: c.Weight, Calm: c.Calm, Tail: c.Tail,
	}
	if c.Tail > 0 {
		h.Tail = max(c.Tail, ttl) // so far the clock may jump ahead and nobody notices
	}
	h.Want = max(c.Want, c.Need, c.Used)
	h.Spare = min(c.Spare, h.Want-max(c.Need, c.Used))
	h.CalmUse = min(c.CalmUse, h.Want-h.Spare)
	if before != nil {
		h.Marks = before.Marks
	}
	if c.Need > c.Part {
		h.Since = a.Now
		if before != nil && before.Since > 0 {
			h.Since = before.Since
		}
	}
	return h
}

// byName is where the hold of each name is.
func byName(holds []Hold) map[string]int {
	at := make(map[string]int, len(holds))
	for i := range holds {
		at[holds[i].Name] = i
	}
	return at
}

// age drops what counts no more, and who has nothing left.
func (a *Account) age() {
	for i := range a.Members {
		m := &a.Members[i]
		m.Holds = slices.DeleteFunc(m.Holds, a.over)
	}
	a.Members = slices.DeleteFunc(a.Members, func(m Member) bool { return len(m.Holds) == 0 && m.Seen+ttl < a.Now })
}

// over reports whether a hold counts no more.
func (a *Account) over(h Hold) bool { return h.until() < a.Now }

// until is how long a hold counts, if it is told no more. A period lasts a Window longer here:
// so far the clocks may differ by which processes end it.
func (h *Hold) until() int64 {
	switch h.Kind {
	case Rolling:
		return h.Seen + ttl + window
	case Period:
		return h.Ends + window
	}
	return h.Seen + ttl + h.Tail
}

// idle reports whether a hold is none.
func (h Hold) idle() bool { return h.belief() == 0 && h.Want == 0 }

// live reports whether who has a hold is heard of.
func (a *Account) live(h *Hold) bool { return h.Seen+ttl >= a.Now }

// belief is the most that may count against the limit where a hold is.
func (h *Hold) belief() int64 { return max(h.High, h.Used) }

// Forget is in how many milliseconds the account may be forgotten, if nobody tells anything.
func (a *Account) Forget() int64 {
	last := a.Now
	for _, m := range a.Members {
		last = max(last, m.Seen+ttl)
		for _, h := range m.Holds {
			last = max(last, h.until())
		}
	}
	return last - a.Now
}
