package parts

import (
	"slices"
	"strings"
)

// Ask is what one process tells of owners whose limits hold for the same calls, together with these
// calls. Each call goes only if it is let in, by all limits that hold for it or by none.
//
// All of it is taken in as one step, for all owners. What is let in becomes part of what the
// process may use, and is told as used from the next beat on. So there are no second books, and
// repetition is harmless: an Ask of which a beat comes late, or twice, changes nothing.
type Ask struct {
	// Beats are of owners with the same Root, one beat of each.
	Beats []*Beat
	Calls []Call
}

// Root is what an owner has in common with all owners whose limits may hold for the same call: the
// tenant in "tenant/team in pool". Stores on many servers divide owners by it.
func Root(owner string) string {
	tenant, _, _ := strings.Cut(owner, " in ")
	tenant, _, _ = strings.Cut(tenant, "/")
	return tenant
}

// Call is what one call takes of the claims of an Ask's beats.
type Call []Take

// Take is an amount of one claim: Claim is an index into the Claims of the Ask's Beats[Beat].
type Take struct {
	Beat, Claim int
	Amount      int64
	// Rest says that less will do, namely all that is left, if nothing in flight may give anything
	// back.
	Rest bool
}

// Answer answers an Ask: its beats and its calls, in the same order. Beside Failures it has no verdicts.
type Answer struct {
	Replies  []Reply
	Verdicts []Verdict
}

// Verdict is the decision on a call.
type Verdict struct {
	In bool
	// Given is how much of each Take the call was let in with: all of it, or the rest.
	Given []int64
	// For a call that was not let in, Lacks is the index of the Take for which there was no room,
	// and Wait is in how many milliseconds there will be, if nobody else comes; 0 is unknown.
	Lacks int
	Wait  int64
}

// Tell takes in an Ask at now, given the accounts of the owners of its beats, in their order, and
// answers.
func (q *Ask) Tell(now int64, accounts []*Account) Answer {
	ans := Answer{make([]Reply, len(q.Beats)), make([]Verdict, len(q.Calls))}
	members := make([]*Member, len(q.Beats))
	late := false
	for i, b := range q.Beats {
		a := accounts[i]
		a.putBack(b)
		a.advance(now)
		members[i] = a.member(b.Instance)
		late = late || b.Seq <= members[i].Seq
	}
	if late {
		return ans
	}
	of := make([]peers, len(q.Beats))
	for i, b := range q.Beats {
		accounts[i].recall(b)
		of[i] = accounts[i].tell(members[i], b)
	}
	for i, c := range q.Calls {
		ans.Verdicts[i] = q.let(c, accounts, members, of)
	}
	for i, b := range q.Beats {
		ans.Replies[i] = accounts[i].answer(members[i], b, of[i])
	}
	return ans
}

// let lets a call in, or says what it lacks: of several limits the one that will take longest to
// have room.
func (q *Ask) let(c Call, accounts []*Account, members []*Member, all []peers) Verdict {
	amounts := make([]int64, len(c))
	v := Verdict{In: true, Wait: -1}
	for i, t := range c {
		a := accounts[t.Beat]
		m := members[t.Beat]
		h := &m.Holds[t.Claim]
		of := all[t.Beat][h.Name]
		free := a.free(h, of)
		amounts[i] = min(max(t.Amount, 0), MaxAmount)
		if amounts[i] > free && t.Rest && free > 0 && !a.inFlight(of) {
			amounts[i] = free
		}
		if amounts[i] > free {
			v.In = false
			if wait := a.wait(h, of, amounts[i]-free); wait > v.Wait {
				v.Lacks = i
				v.Wait = wait
			}
		}
	}
	v.Wait = max(v.Wait, 0)
	if v.In {
		v.Given = amounts
		for i, t := range c {
			members[t.Beat].Holds[t.Claim].give(amounts[i])
		}
	}
	return v
}

// give lets a member use so much more.
func (h *Hold) give(amount int64) {
	h.High = h.belief() + amount
	h.Used, h.Want = min(h.Used+amount, maxSum), max(h.Want, h.Used+amount)
	h.Held = min(h.Held+amount, maxSum)
	h.given = h.Used
}

// free is what of a limit no member has.
func (a *Account) free(h *Hold, of []peer) int64 {
	if a.over(*h) || a.Lost {
		return 0
	}
	free := a.limit(h, of)
	for _, x := range of {
		free = less(free, x.belief())
	}
	return free
}

// inFlight reports whether calls in flight may give something back, at members that are still heard
// of.
func (a *Account) inFlight(of []peer) bool {
	return slices.ContainsFunc(of, func(x peer) bool { return x.Held > 0 && a.live(x.Hold) })
}
