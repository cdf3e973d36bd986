package parts

import "slices"

// Account is what the store of one owner's limits keeps: which process has which part of each
// limit. It is pure, and serves as it is where the store can run Go; elsewhere the same steps are
// written anew (package federation/redis), and the conformance suite compares the two. It is not
// safe for concurrent use. The zero value is an account that has been told nothing.
type Account struct {
	// Now is the latest time seen, in milliseconds since 1970. It never runs backwards.
	Now int64
	// Began is since when the account has been told something at least once a TTL. Until it is
	// twice a TTL old there may be parts, and calls that run, of which the account knows nothing:
	// it may have been lost, or the clock may have jumped, and a process that could not reach the
	// store tries again only every other second or so.
	Began int64
	// Declared is the server that an operator declared the account new on (Declare), until the first beat. Another server, or this one after it
	// may have lost writes, may have the account as it was before beats that it has lost.
	Declared string
	// Epoch tells the account apart from one before it that was lost. Born is when it began, if it began
	// with nothing.
	Epoch, Born int64
	// Lost says that there was an account before, and that it is not restored yet. Tellers are the
	// processes that knew it and have told, and Untold is what they know of it, by limit.
	Lost    bool
	Tellers []string
	Untold  []Untold
	// Members are in the order in which they came.
	Members []Member

	server string // see On
}

// Member is what is known of a process. Seq is its last beat, and Seen is when that came.
type Member struct {
	Instance  string
	Seq, Seen int64
	Holds     []Hold
	// Joined is when its first beat came, and Heard the time of the last answer that it had had by its last beat.
	Joined, Heard int64
}

// Hold is what a member has of a limit. Times are in milliseconds since 1970.
type Hold struct {
	Name string
	Kind Kind
	Ends int64
	// Seen is when it was last told of.
	Seen       int64
	Used, Held int64
	// High is the most that the member may believe its part to be.
	High       int64
	Want, Need int64
	Limit      int64
	// Spare, Weight, Calm, CalmUse, Tail and Lasts are as in the Claim.
	Spare, Weight, Calm, CalmUse, Tail, Lasts int64
	// Since is from when on Need has been more than the part; 0 if it is not.
	Since int64
	// Marks say when Used came to be, oldest first, for a Rolling hold of a process whose beats are
	// Timed.
	Marks []Mark
	// Most bounds what others may have, because it may be what the member believes; 0 is no bound.
	Most int64
	// Note is as in the Claim.
	Note string

	given int64 // the part needed for the calls let in just now
}

var ttl, window = TTL.Milliseconds(), Window.Milliseconds()

// Beat takes in what a process tells at now, and answers.
func (a *Account) Beat(now int64, b *Beat) Reply {
	a.putBack(b)
	a.advance(now)
	m := a.member(b.Instance)
	if b.Seq <= m.Seq {
		return Reply{}
	}
	a.recall(b)
	return a.answer(m, b, a.tell(m, b))
}

// On names the server that keeps the account as of the next step, by its incarnation. It changes whenever writes may have been lost.
func (a *Account) On(incarnation string) { a.server = incarnation }

// advance moves the account to now.
func (a *Account) advance(now int64) {
	switch {
	case a.Declared != "" && a.Declared == a.server: // it knows of all parts
		a.Began = 1
	case a.Declared != "" || a.Now == 0 || now-a.Now > ttl:
		a.Began = now
	}
	a.Declared = ""
	a.begin(now)
	a.Now = max(a.Now, now)
	a.age()
}

// answer answers a beat that was taken in.
func (a *Account) answer(m *Member, b *Beat, of peers) Reply {
	r := Reply{Seq: b.Seq, Epoch: a.Epoch, Learning: a.Lost || a.untaught(b), Now: a.Now, Parts: make([]Part, len(b.Claims))}
	for i := range b.Claims {
		h := &m.Holds[i]
		r.Parts[i] = a.grant(m, h, of[h.Name], b.Claims[i].Expect)
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

// heir is the Instance that takes over what processes that have left used of periods. Kept one by
// one, they would become more with each restart of a process.
const heir = ""

// bequeath hands what a process that leaves used of periods to the heir.
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
			at[h.Name] = i
			to.Holds = append(to.Holds, Hold{Name: h.Name, Kind: Period})
		}
		x := &to.Holds[i]
		x.Seen, x.Ends, x.Used = a.Now, max(x.Ends, h.Ends), min(x.Used+h.belief(), maxSum)
		x.Want = x.Used
	}
}

// member returns a process's member; if it was unknown, it is from now on.
func (a *Account) member(instance string) *Member {
	i := slices.IndexFunc(a.Members, func(m Member) bool { return m.Instance == instance })
	if i < 0 {
		i = len(a.Members)
		a.Members = append(a.Members, Member{Instance: instance, Joined: a.Now})
	}
	return &a.Members[i]
}

// tell replaces what a member told before. A limit that it does not tell of any more it has left:
// it has no part there, and only what it used counts on. tell returns what everybody has of the
// limits that are told of.
func (a *Account) tell(m *Member, b *Beat) peers {
	before := m.Holds
	at := byName(m.Holds)
	m.Seq = b.Seq
	m.Seen = a.Now
	if b.Known == a.Epoch {
		m.Heard = b.Heard
	}
	m.Holds = make([]Hold, 0, len(before))
	for _, c := range b.Claims {
		var was *Hold
		if i, there := at[c.Name]; there {
			was = &before[i]
		}
		m.Holds = append(m.Holds, a.told(was, c.Within()))
	}
	told := byName(m.Holds)
	for _, h := range before {
		if h.Lasts > 0 { // it may have used all of its part since it told
			h.Used = h.belief()
			h.Seen = a.Now
		}
		if _, there := told[h.Name]; h.Kind != Slots && !there {
			m.Holds = append(m.Holds, Hold{Name: h.Name, Kind: h.Kind, Ends: h.Ends, Seen: h.Seen, Used: h.Used, Want: h.Used, Tail: h.Tail, Marks: h.Marks})
		}
	}
	return a.peers(b)
}

// told is a claim as it is kept. What the process says that it has is all that it has, since it
// takes no answers to earlier beats.
func (a *Account) told(before *Hold, c Claim) Hold {
	h := Hold{
		Name: c.Name, Kind: c.Kind, Ends: c.Ends, Seen: a.Now, Used: c.Used, Held: c.Held, High: c.Part, Need: c.Need,
		Limit: c.Limit, Weight: c.Weight, Calm: c.Calm, Tail: c.Tail, Lasts: c.Lasts, Most: c.Most, Note: c.Note,
	}
	if c.Kind == Slots && c.Tail > 0 {
		h.Tail = max(c.Tail, ttl) // the clock may jump ahead by up to a TTL unnoticed
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

// byName maps names to the indices of their holds.
func byName(holds []Hold) map[string]int {
	at := make(map[string]int, len(holds))
	for i := range holds {
		at[holds[i].Name] = i
	}
	return at
}

// age drops holds that count no more, and members that have none left.
func (a *Account) age() {
	for i := range a.Members {
		m := &a.Members[i]
		m.Holds = slices.DeleteFunc(m.Holds, a.over)
	}
	a.Members = slices.DeleteFunc(a.Members, func(m Member) bool { return len(m.Holds) == 0 && m.Seen+ttl < a.Now })
	a.Untold = slices.DeleteFunc(a.Untold, func(u Untold) bool { return a.over(u.hold(a.Born)) })
	if len(a.Untold) == 0 && !a.Lost {
		a.Tellers = nil
	}
}

// over reports whether a hold counts no more.
func (a *Account) over(h Hold) bool { return h.until() < a.Now }

// until is how long a hold counts if nothing more is told of it. A period counts for a Window
// longer here, because the clocks of the processes may differ by as much.
func (h *Hold) until() int64 {
	switch h.Kind {
	case Rolling:
		return h.expires() + h.window()
	case Period:
		return h.Ends + window
	}
	return h.expires() + h.Tail
}

// expires is when the part of a hold does if nothing more is told of it.
func (h *Hold) expires() int64 { return h.Seen + ttl + h.Lasts }

// window is how long use of a Rolling limit counts.
func (h *Hold) window() int64 {
	if h.Tail == 0 {
		return window
	}
	return h.Tail
}

// idle reports whether a hold is empty.
func (h Hold) idle() bool { return h.belief() == 0 && h.Want == 0 }

// live reports whether the member of a hold is still heard of, or need not be yet.
func (a *Account) live(h *Hold) bool { return h.expires() >= a.Now }

// here reports whether a member is.
func (a *Account) here(m *Member) bool {
	return m.Instance != heir && (m.Seen+ttl >= a.Now || slices.ContainsFunc(m.Holds, func(h Hold) bool { return a.live(&h) }))
}

// belief is the most that may count against the limit at the member of a hold.
func (h *Hold) belief() int64 { return max(h.High, h.Used) }

// Last reports whether no other process is heard of.
func (a *Account) Last(instance string) bool {
	return !slices.ContainsFunc(a.Members, func(m Member) bool { return m.Instance != instance && a.here(&m) })
}

// Kept is for how many milliseconds an account has to be kept after it has taken in the beat, and until which time at least.
func (b *Beat) Kept() (lasts, ends int64) {
	var a Account
	lasts = ttl
	for _, c := range b.Claims {
		h := a.told(nil, c.Within()) // at 0, so that it counts until so many milliseconds later
		if h.Kind == Period {
			ends = max(ends, h.until())
		} else {
			lasts = max(lasts, h.until())
		}
	}
	return lasts, ends
}

// Forget is in how many milliseconds the account may be dropped, if nothing more is told.
func (a *Account) Forget() int64 {
	last := a.Now
	if a.Declared != "" {
		last += declared
	}
	for _, m := range a.Members {
		last = max(last, m.Seen+ttl)
		for _, h := range m.Holds {
			last = max(last, h.until())
		}
	}
	for i := range a.Untold {
		h := a.Untold[i].hold(a.Born)
		last = max(last, h.until())
	}
	return last - a.Now
}
