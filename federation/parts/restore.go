package parts

import "slices"

// Untold is what is known of a limit whose account was lost, before all have told what they have of it.
type Untold struct {
	Name string
	Kind Kind
	// Ends and Tail are as in the Claim.
	Ends, Tail int64
	// Sum and Most are the most that all had, and may have come to have, according to any of those who
	// knew the lost account. Had is what the lost account counted of these at least.
	Sum, Most, Had int64
	// Told is what each of them had heard last.
	Told []Told
}

// Told is what one process had heard of a limit whose account was lost: at the time Heard, All processes were heard of, itself
// among them, and those that were not had Gone. It counted as heard of for Lasted longer than a TTL from then on.
type Told struct{ Heard, Lasted, All, Gone int64 }

// begin numbers an account that has no Epoch. One that is empty may have been lost.
func (a *Account) begin(now int64) {
	if a.Epoch > 0 {
		return
	}
	if a.Now == 0 {
		a.Born = now
	}
	a.Epoch = max(1, now)
}

// putBack drops an account that does not know of its own last answer to a process: it is an older one, which somebody has put back, and what
// was told since is lost. Others may have told the older one meanwhile. A member is forgotten no sooner than a TTL after that answer.
func (a *Account) putBack(b *Beat) {
	last := max(0, a.Now-ttl-1)
	for _, m := range a.Members {
		if m.Instance == b.Instance {
			last = m.Seen
		}
	}
	if b.Known > 0 && b.Known == a.Epoch && b.Heard > last {
		*a = Account{server: a.server}
	}
}

// recall takes in what a process knows of an account that was lost: once, in a beat that was sent after the
// loss. Nothing new is granted before, and until the parts of the lost account have expired; if nobody who
// knows is left, until all that was used of them has left the Window.
func (a *Account) recall(b *Beat) {
	knows := a.untaught(b)
	a.Lost = a.Lost || knows && len(a.Tellers) == 0
	if knows && b.Epoch == a.Epoch {
		a.Tellers = append(a.Tellers, b.Instance)
		for _, c := range b.Claims {
			a.untold(c.Within(), b.Heard)
		}
	}
	if a.Lost && (len(a.Tellers) > 0 && a.Now > a.Born+ttl || a.Now > a.Born+ttl+window) {
		a.Lost = false
		a.Began = a.Now - 2*ttl - 1 // it knows of all parts
	}
}

// untaught reports whether a process knows of an account that was lost, and has not told yet what.
func (a *Account) untaught(b *Beat) bool {
	return a.Born > 0 && b.Known > 0 && b.Known != a.Epoch && !slices.Contains(a.Tellers, b.Instance)
}

// untold takes in what a process knows of one limit.
func (a *Account) untold(c Claim, heard int64) {
	i := slices.IndexFunc(a.Untold, func(u Untold) bool { return u.Name == c.Name })
	if i < 0 {
		i = len(a.Untold)
		a.Untold = append(a.Untold, Untold{Name: c.Name, Kind: c.Kind})
	}
	u := &a.Untold[i]
	u.Ends = max(u.Ends, c.Ends)
	u.Tail = max(u.Tail, c.Tail)
	sum := c.Sum + c.Had
	u.Sum = max(u.Sum, sum)
	u.Most = max(u.Most, min(c.Most+c.Had, max(c.Limit, sum)))
	u.Had = min(u.Had+c.Had, maxSum)
	u.Told = append(u.Told, Told{Heard: heard, Lasted: c.Lasted, All: 1 + c.Peers, Gone: c.Gone})
}

// hold is what others may have of the lost account than those who have told. Their parts expire a TTL after the loss.
func (u *Untold) hold(born int64) Hold {
	n := u.rest()
	return Hold{Name: u.Name, Kind: u.Kind, Ends: u.Ends, Tail: u.Tail, Seen: born, Used: n, High: n, Want: n}
}

// rest is all that others may have come to have. If all have told who were heard of at the last time that anybody knows, it is only what
// those had who were not: whatever went from one to another of those who have told, they have told. Of a period it is what is left of all
// that anybody knows of, because grants of it rest on what each process believes of all others (promised).
func (u *Untold) rest() int64 {
	last := int64(0)
	for _, t := range u.Told {
		last = max(last, t.Heard)
	}
	told := int64(0)
	all := int64(0)
	gone := int64(0)
	for _, t := range u.Told {
		if t.Heard+t.Lasted >= last-ttl { // others may have come since the rest heard of anything, or left
			told++
			all = max(all, t.All)
			gone = max(gone, t.Gone)
		}
	}
	if told < all {
		return less(u.Most, u.Had)
	}
	if u.Kind == Period {
		return less(u.Sum, u.Had)
	}
	return min(gone, less(u.Sum, u.Had))
}

// promised is the most that a member may have of a period, so that others of each process have no more than
// that process believes that they may come to have. One that is silent for a TTL, or wants nothing, is not
// regarded: it hears of nothing, and would hold up the others.
func (a *Account) promised(m *Member, h *Hold, of []peer) int64 {
	if h.Kind != Period {
		return maxSum
	}
	others := int64(0)
	for _, x := range of {
		if x.m != m {
			others = min(others+x.belief(), maxSum)
		}
	}
	most := maxSum
	for _, x := range of {
		if x.m != m && x.Most > 0 && x.Want > x.Used && a.live(x.Hold) {
			most = min(most, less(x.Most+x.belief(), others))
		}
	}
	return max(most, h.belief())
}

// promise fills in what others than a member have of a limit, and may come to have. That is all there is
// where use leaves the limit again. What may have been granted of a period counts to its end, so it is less:
// what they want, as much in advance once more as all want, and an eighth of what nobody has.
func (a *Account) promise(m *Member, h *Hold, of []peer, r *Part) {
	want := less(h.Want, h.Used)
	for _, x := range of {
		if x.m == m {
			continue
		}
		r.Sum = min(r.Sum+x.belief(), maxSum)
		want = min(want+x.belief(), maxSum)
		if !a.live(x.Hold) || x.m.Instance == heir {
			r.Gone = min(r.Gone+x.belief(), maxSum)
			continue
		}
		r.Peers++
		want = min(want+less(x.Want, x.belief())+less(x.Want, x.Used), maxSum)
	}
	limit := a.limit(h, of)
	want += (less(limit, h.belief()+r.Sum) + 7) / 8
	if h.Kind != Period {
		want = limit
	}
	r.Most = max(1, r.Sum, min(limit, want))
	if h.Most == 0 || r.Most < h.Most {
		h.Most = r.Most
	}
}
