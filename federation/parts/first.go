package parts

import "slices"

// This file decides when an account that is new knows of all parts, and so may grant slots before all have had the time to tell.

// declared is for how long an account that was declared new waits for its first process.
const declared = 24 * 60 * 60 * 1000

// complete reports whether an account that is new has heard of all processes that there are. A process that has heard an answer, and
// tells again, ran at the time of that answer. If as many ran at one time as there are, no other has calls that run, and each of them
// has told its own. Of a process that an earlier release wrote down it is unknown when it came.
func (a *Account) complete(expect int64) bool {
	return expect > 0 && a.Began == a.Born && slices.ContainsFunc(a.Members, func(last Member) bool {
		ran := int64(0)
		for i := range a.Members {
			if m := &a.Members[i]; m.Joined > 0 && m.Joined <= last.Joined && last.Joined <= m.Heard {
				ran++
			}
		}
		return ran >= expect
	})
}

// Declare takes an operator's word that no process has a part of which the account does not know. The word is good for the first beat, on the
// server of this incarnation alone. Declare reports false if a process is heard of, or has slots.
func (a *Account) Declare(now int64, incarnation string) bool {
	a.advance(now)
	for i := range a.Members {
		m := &a.Members[i]
		if a.here(m) || slices.ContainsFunc(m.Holds, func(h Hold) bool { return h.Kind == Slots && h.belief() > 0 }) {
			return false
		}
	}
	a.Declared = incarnation
	return true
}
