package parts

import "time"

const (
	// TTL is how long a part holds, and Window for how long use counts of what is Rolling.
	TTL    = 2500 * time.Millisecond
	Window = time.Minute
	// MaxAmount bounds every amount that is told, so that stores whose only numbers are
	// floats compute exactly what Go does.
	MaxAmount = int64(1e15)
)

// Kind says when use stops counting against a limit.
type Kind string

// The kinds.
const (
	// Rolling: a Window after it was.
	Rolling Kind = "rolling"
	// Period: with the period that ends at Ends.
	Period Kind = "period"
	// Slots: when what runs ends; of a process that is heard of no more, a Tail later.
	Slots Kind = "slots"
)

// Beat is what one process tells of one owner's limits. Amounts are sums and not
// differences: told twice, they say the same.
type Beat struct {
	// Owner is whose limits these are: the name of the account.
	Owner string
	// Instance names the process: random, new at each start. Seq numbers its beats of this
	// owner from 1 on.
	Instance string
	Seq      int64
	// Left says that the process ends: nobody of its Instance will tell anything again.
	Left bool
	// Timed asks the account to remember when what is used came to be, for what it tells calls
	// that it does not let in (Ask).
	Timed bool
	// Claims are those on limits that the process knows; one that it told before and does not
	// tell now it has left, and its part of it with it.
	Claims []Claim
}

// Claim is one process's side of one limit.
type Claim struct {
	// Name tells the limit from the owner's others. Of a Period it names the period, too.
	Name string
	Kind Kind
	// Limit is what all processes may have together. Of several the least holds, while it is
	// on its way to all.
	Limit int64
	// Ends is when a Period is over, in milliseconds since 1970.
	Ends int64
	// Used is what counts against the limit here now, and what calls in flight hold. Held is
	// that part of it which these may give back.
	Used, Held int64
	// Part is what the process may have as it sends this: 0 if that has expired.
	Part int64
	// Want is what it would have: Used, what waits for it, and what may come before the
	// next beat. Need is what it has to have for the call that waits longest, Used included; 0
	// if none does.
	Want, Need int64
	// Spare is how much of Want is only for what may come: nobody has it while another waits, or
	// while there is less of it than there are processes.
	Spare int64
	// Weight weighs those who want more than they have, and Calm those who want no more than
	// the amount CalmUse, which they use. 0 is a weight of 1, so that who tells none of this gets
	// as much as the others.
	Weight, Calm, CalmUse int64
	// Tail is, of Slots, for how many milliseconds what runs may run on in a process that is
	// heard of no more, a TTL at least. If it is not 0, an account that may not know of all parts grants none.
	Tail int64
}

// Reply answers a beat.
type Reply struct {
	// Seq is that of the beat; 0 of one that came late, or twice: it changed nothing.
	Seq int64
	// Parts answer the claims, in their order.
	Parts []Part
}

// Part is what a process may have of a limit: no more than Part may count against it
// there, for the TTL from when the beat was sent.
type Part struct {
	Part int64
	// Others is what counts against the limit in other processes; of one that is silent, all
	// that it may have used. Held is what of it calls in flight may give back.
	Others, Held int64
}

// Within is a claim whose amounts are all of 0…MaxAmount.
func (c Claim) Within() Claim {
	for _, x := range []*int64{&c.Limit, &c.Ends, &c.Used, &c.Held, &c.Part, &c.Want, &c.Need, &c.Spare, &c.Weight, &c.Calm, &c.CalmUse, &c.Tail} {
		*x = min(max(*x, 0), MaxAmount)
	}
	return c
}
