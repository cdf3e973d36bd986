package parts

import (
	"errors"
	"maps"
	"slices"
	"time"
)

const (
	// TTL is how long a part holds, and Window how long use counts against a Rolling limit.
	TTL    = 2500 * time.Millisecond
	Window = time.Minute
	// MaxAmount bounds every amount in a message, so that stores that have no numbers but floats
	// compute exactly what Go does.
	MaxAmount = int64(1e15)
)

// Kind says when use stops counting against a limit.
type Kind string

// The kinds.
const (
	// Rolling use counts for a Window, or for Claim.Tail if that is set.
	Rolling Kind = "rolling"
	// Period use counts until the period ends, at Claim.Ends.
	Period Kind = "period"
	// Slots use counts until the call ends, and if its process is heard of no more, for Claim.Tail
	// after that.
	Slots Kind = "slots"
)

// Beat is what one process tells of one owner's limits. Amounts are sums, not differences:
// repeated, they say the same.
type Beat struct {
	// Owner names whose limits these are, and so the account.
	Owner string
	// Instance names the process: random, and new at each start. Seq numbers its beats of this
	// owner, from 1 on.
	Instance string
	Seq      int64
	// Epoch is that of the last answer, and Known that of the last one that was not Learning; 0 is none.
	// Heard is the time of the latter.
	Epoch, Known, Heard int64
	// Left says that the process ends: this is the last beat of its Instance.
	Left bool
	// Timed asks the account to remember when use came to be. It needs that to tell calls that it
	// does not let in (Ask) when there will be room.
	Timed bool
	// Claims are on the limits that the process knows. A limit that it told of before but not now
	// it has left, together with its part.
	Claims []Claim
}

// Claim is one process's side of one limit.
type Claim struct {
	// Name tells the limit apart from the owner's others. For a Period it also names the period.
	Name string
	Kind Kind
	// Limit is what all processes may use together. While a change is on its way to all of them,
	// the lowest counts.
	Limit int64
	// Ends is when a Period is over, in milliseconds since 1970.
	Ends int64
	// Used is what counts against the limit in this process now, including what calls in flight
	// hold. Held is the part of it that calls in flight may give back.
	Used, Held int64
	// Part is what the process may use as it sends this; 0 if that has expired.
	Part int64
	// Want is what it would like to have: Used, what waits, and what may come before the next beat.
	// Need is what it must have for the call that has waited longest, including Used; 0 if none
	// waits.
	Want, Need int64
	// Spare is the part of Want that is only for what may come. Nobody gets any while another
	// process waits, or while there is less of it than there are processes.
	Spare int64
	// Weight is the total weight of those here that want more than they have. Calm is that of those
	// that want no more than they use, which together is CalmUse. A weight of 0 counts as 1, so
	// that processes that tell no weights get equal parts.
	Weight, Calm, CalmUse int64
	// Tail is, for Slots, how many milliseconds calls may go on running in a process that is heard
	// of no more; it counts as at least a TTL. Where Tail is not 0, an account that may not know of
	// all parts grants nothing new.
	// For a Rolling limit Tail is how many milliseconds use counts; 0 is a Window.
	Tail int64
	// Sum, Gone, Most and Peers are those of the Part in the last answer that was not Learning. Had is the least
	// that the account of that answer has counted of this process since then.
	Sum, Gone, Most, Peers, Had int64
	// Expect is how many processes there are according to this one's configuration; 0 is unknown. An account that is new
	// grants Slots once that many have told.
	Expect int64
	// Lasts is for how many milliseconds beyond a TTL the process may use its part without another beat. Lasted is that of the beat to
	// which the last answer was that was not Learning.
	Lasts, Lasted int64
	// Note is for the other processes, and the account does not read it. The last one counts.
	Note string
	// Passed says that calls which the limit does not keep out use it as well, so that more than the part may be in use for long. It is for
	// the Holder alone.
	Passed bool
}

// Reply answers a beat.
type Reply struct {
	// Seq is that of the beat. It is 0 for a beat that came late, or twice, and changed nothing.
	Seq int64
	// Epoch tells an account apart from one that was lost. Learning says that it does not know yet what
	// the lost one knew, or what this process knew of it.
	Epoch    int64
	Learning bool
	// Now is the account's time.
	Now int64
	// Parts answer the claims, in the same order.
	Parts []Part
}

// Failures are errors of some beats of many, by their indices. The other beats were taken in, and are answered. Where an error is ErrDamaged or
// ErrEncoding, the store cannot read the owner's account, and leaves it as it is.
type Failures map[int]error

func (f Failures) Error() string { return errors.Join(f.Unwrap()...).Error() }

// Unwrap lists the errors in the order of the beats.
func (f Failures) Unwrap() (list []error) {
	for _, i := range slices.Sorted(maps.Keys(f)) {
		list = append(list, f[i])
	}
	return list
}

// Part is what a process may use of a limit: no more than Part may count against it there, for a
// TTL from when the beat was sent, or as much longer as Claim.Lasts says.
type Part struct {
	Part int64
	// Others is what counts against the limit in other processes; for one that is silent, all that
	// it may have used. Held is what calls in flight there may give back.
	Others, Held int64
	// Sum is what other processes may have of the limit, and Gone is the part of it of those that are heard of no
	// more. Most is what others may come to have before this one is heard of again, and Peers is how many of them are
	// heard of. With these an account that is lost is restored. They are 0 in a Reply that is Learning.
	Sum, Gone, Most, Peers int64
	// Notes are those of the other processes that are heard of, so far as they have any.
	Notes []Note
}

// Note is a Claim.Note as another process hears of it. Age is for how many milliseconds the account has
// had it.
type Note struct {
	Age  int64
	Text string
}

// Within is the claim with every amount cut to 0…MaxAmount.
func (c Claim) Within() Claim {
	for _, x := range []*int64{&c.Limit, &c.Ends, &c.Used, &c.Held, &c.Part, &c.Want, &c.Need, &c.Spare, &c.Weight, &c.Calm, &c.CalmUse, &c.Tail, &c.Sum, &c.Gone, &c.Most, &c.Peers, &c.Had, &c.Expect, &c.Lasts, &c.Lasted} {
		*x = min(max(*x, 0), MaxAmount)
	}
	return c
}
