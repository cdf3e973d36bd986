package parts

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// A process sends a beat every interval. When it has taken a smaller part for which others may
	// be waiting, it says so eager after the last beat.
	interval = time.Second
	eager    = 250 * time.Millisecond
	// While calls wait for more, the next beat follows least after the last one. Each time that
	// this brings nothing the pause doubles, up to interval.
	least = 100 * time.Millisecond
	// The firstBeats of a process that lacks slots follow each other eagerly: a new account grants as soon as all expected processes
	// have told twice, and after twice a TTL in any case.
	firstBeats = 20
	// Two clocks may differ by 1/drift of any stretch of time.
	drift = 1000
)

// Holder is one process's side of one owner's limits: it says when to tell the store what, and what
// follows from the answers. It is pure: it has no clock, and does not know what counts against a
// limit. Times are of the process's own monotonic clock. It is not safe for concurrent use.
type Holder struct {
	owner, instance string
	rng             *rand.Rand

	seq, acked int64
	epoch      int64 // of the last answer
	sent       sent
	parts      map[string]int64 // as last answered, less what was left since
	until      time.Time        // when all of them expire, and fresh when those would that do not last
	fresh      time.Time
	kept       map[string]kept // as of the last answer of an account that was not learning
	known      int64           // the epoch of that answer, heard its time, and learnt the beat that it was to
	heard      int64
	learnt     int64
	former     bool  // known is of an earlier process, and nothing is kept of it
	forgotten  bool  // and the account is another one by now
	taught     int64 // the epoch of the account that was told last all that this process knew of the one before

	next  time.Time     // when the next regular beat is due
	pause time.Duration // how long after the last beat the next one is due while calls wait
	given bool          // the last answer made a part smaller, and others may be waiting for that
	quiet bool          // nothing is held, and the store knows all there is to tell
	again time.Time     // when it has to be told anew what has left long windows meanwhile; zero if nothing is in them
	lost  bool          // the last beat will not be answered any more
	lacks bool          // a call waits for more than was granted
	short bool          // less was granted than was wanted
	lasts bool          // all that was wanted was granted, for longer than a TTL
	empty bool          // nothing is held or used
}

// sent is the last beat.
type sent struct {
	at     time.Time
	busy   bool
	epoch  int64
	lasts  time.Duration // beyond a TTL
	claims []Claim
}

// kept is what a process knows of a limit's account, in case that is lost: the Claim's fields of the same
// names, as of the answer at a time of the account. left is what the account counts of the process if it is not told of the limit any more.
type kept struct{ sum, gone, most, peers, had, left, lasted, at int64 }

// NewHolder returns a Holder that has told nothing. The instance has to be unused: beats that an
// earlier Holder sent under it would count as later ones. seed sets the jitter of the beats.
func NewHolder(owner, instance string, seed uint64) *Holder {
	return &Holder{owner: owner, instance: instance, rng: rand.New(rand.NewPCG(seed, 11)), pause: least, kept: map[string]kept{}}
}

// Due reports whether it is time for a beat. busy says that calls run or wait, lacking that one
// waits for a larger part.
func (h *Holder) Due(now time.Time, busy, lacking bool) bool {
	switch {
	case h.seq == 0:
		return true
	case h.quiet && !busy && !lacking:
		return !h.again.IsZero() && !now.Before(h.again)
	case !now.Before(h.next):
		return true
	case h.acked < h.seq && !h.lost:
		return false // another beat would make its answer worthless
	case lacking:
		return !now.Before(h.sent.at.Add(h.pause))
	}
	return h.given && !now.Before(h.sent.at.Add(eager))
}

// Beat makes the next beat from the present claims; no answer may have been taken since these were
// made. It keeps the claims, and fills in which part the process has of each limit. busy says that
// calls run or wait.
func (h *Holder) Beat(now time.Time, busy bool, claims []Claim) *Beat {
	h.seq++
	before := h.parts
	h.parts = make(map[string]int64, len(claims))
	for i := range claims {
		c := &claims[i]
		c.Part = 0
		if now.Before(h.until) {
			c.Part = before[c.Name]
		}
		h.parts[c.Name] = c.Part
	}
	h.tells(claims)
	h.sent = sent{at: now, busy: busy, epoch: h.epoch, claims: claims}
	for i := range claims {
		lasts := time.Duration(claims[i].Lasts) * time.Millisecond
		if i == 0 || lasts < h.sent.lasts {
			h.sent.lasts = lasts
		}
	}
	h.next = now.Add(time.Duration(float64(interval) * (0.9 + 0.2*h.rng.Float64())))
	if until := now.Add(TTL - TTL/drift + h.sent.lasts - h.sent.lasts/drift); until.Before(h.until) {
		h.until = until // even without an answer
	}
	h.quiet = false
	h.given = false
	h.lost = false
	h.lasts = false
	return &Beat{Owner: h.owner, Instance: h.instance, Seq: h.seq, Epoch: h.epoch, Known: h.known, Heard: h.heard, Claims: claims}
}

// tells fills in what the process knows of the account. What it told in the beat before may be all that the
// account counts of it, even if there was no answer.
func (h *Holder) tells(claims []Claim) {
	if h.learnt < h.seq-1 {
		told := make(map[string]int64, len(h.sent.claims))
		for _, c := range h.sent.claims {
			told[c.Name] = max(c.Part, c.Used)
		}
		for name, k := range h.kept {
			counted, there := told[name]
			if !there {
				counted = k.left
			}
			k.had = min(k.had, counted)
			h.kept[name] = k
		}
	}
	for i := range claims {
		c := &claims[i]
		k := h.kept[c.Name]
		c.Sum = k.sum
		c.Gone = k.gone
		c.Most = k.most
		c.Peers = k.peers
		c.Had = k.had
		c.Lasted = k.lasted
		if h.former {
			c.Had = c.Used
		}
	}
}

// keeps takes in what an answer says of the account.
func (h *Holder) keeps(r *Reply) {
	h.epoch = r.Epoch
	h.forgotten = h.forgotten || h.former && r.Epoch != h.known
	if !r.Learning || h.sent.epoch == r.Epoch {
		h.taught = r.Epoch
	}
	if r.Learning {
		return
	}
	h.known = r.Epoch
	h.heard = r.Now
	h.learnt = r.Seq
	h.former = false
	before := h.kept
	h.kept = make(map[string]kept, len(r.Parts))
	for name, k := range before { // of limits that are not told of in each beat
		if age := r.Now - k.at; age >= 0 && age <= ttl {
			k.had = k.left
			h.kept[name] = k
		}
	}
	for i, c := range h.sent.claims {
		p := r.Parts[i]
		h.kept[c.Name] = kept{sum: p.Sum, gone: p.Gone, most: p.Most, peers: p.Peers, had: max(p.Part, c.Used), left: c.left(), lasted: c.Lasts, at: r.Now}
	}
}

// Ask makes the beat for an Ask. The process gives up for it what it has but does not use, so that
// the calls find everything that nobody uses.
func (h *Holder) Ask(now time.Time, claims []Claim) *Beat {
	b := h.Beat(now, true, claims)
	for i := range b.Claims {
		c := &b.Claims[i]
		c.Part = min(c.Part, c.Used)
		h.parts[c.Name] = c.Part
	}
	return b
}

// Answered takes in an answer, and reports whether it is valid. An answer to another beat than the
// last is not: by the last beat the store knows that it was not taken.
func (h *Holder) Answered(now time.Time, r *Reply) bool {
	fresh := h.sent.at.Add(TTL - TTL/drift)
	if r.Seq != h.seq || h.acked == h.seq || len(r.Parts) != len(h.sent.claims) || !now.Before(fresh) {
		return false
	}
	h.acked = h.seq
	h.fresh = fresh
	h.quiet = !h.sent.busy
	h.lacks = false
	h.empty = true
	h.until = fresh.Add(h.sent.lasts - h.sent.lasts/drift)
	h.short = false
	h.keeps(r)
	h.again = time.Time{}
	raised := false
	lacked := false
	longest := interval
	for i, c := range h.sent.claims {
		part := r.Parts[i].Part
		h.parts[c.Name] = part
		if c.Kind == Slots && c.Tail > 0 {
			longest = interval / 2 // slots become free all the time
		}
		raised = raised || part > c.Part
		lacked = lacked || c.Need > c.Part
		h.lacks = h.lacks || c.Need > part
		h.short = h.short || part < c.Want
		h.empty = h.empty && part == 0 && c.Used == 0
		h.given = h.given || c.Expect > 0 && h.seq <= firstBeats && part < c.Want // it may be granted once all have told again
		h.given = h.given || part < c.Part && part < c.Want || part < c.Part/2 || c.Kind == Slots && c.Used > part && !c.Passed
		h.quiet = h.quiet && c.settled() && part <= c.Used
		h.tellAgain(c.retell())
	}
	h.lasts = h.sent.lasts > 0 && !h.short && !r.Learning
	if r.Learning { // it has to be told more
		h.quiet = false
		h.given = true
	}
	trip := max(least, now.Sub(h.sent.at))
	if lacked && !raised {
		h.pause = min(2*max(h.pause, trip), longest)
	} else {
		h.pause = trip
	}
	return true
}

// doubted is the epoch of an account of which nothing is known but that there may have been one. No account has it.
const doubted = 1

// Doubt says that the account may have been lost that others know. So one that begins with nothing waits for a TTL, as if this process
// had known another. It is for a Holder that has told nothing.
func (h *Holder) Doubt() { h.known = doubted }

// Succeed says of which epoch the account was that an earlier process at this place knew. If it is another one by now, it has to be told
// what that process used, as this one's (Forgotten). It is for a Holder that has told nothing.
func (h *Holder) Succeed(epoch int64) {
	h.known = epoch
	h.former = true
}

// Forgotten reports whether the account knows nothing of what the earlier process used.
func (h *Holder) Forgotten() bool { return h.forgotten }

// Taught is the epoch of the last account that has been told all that this process knows of one before, and all that it used; 0 is none.
func (h *Holder) Taught() int64 { return h.taught }

// Learns reports whether the store has lost what it knew, and has to be told of it.
func (h *Holder) Learns() bool { return h.known > doubted && h.epoch != h.known }

// Lost says that the last beat will not be answered any more.
func (h *Holder) Lost() {
	h.lost = true
	h.lacks = slices.ContainsFunc(h.sent.claims, func(c Claim) bool { return c.Need > c.Part })
}

// left is what an account counts of a claim from when it is not told of it any more.
func (c *Claim) left() int64 {
	if c.Kind == Slots {
		return 0
	}
	return c.Used
}

// settled reports whether a claim says nothing that time will change soon, or nothing that matters: a
// process that is silent from now on keeps nothing from others that they would miss.
func (c *Claim) settled() bool {
	still := c.Kind == Period || c.Used == 0 || c.Kind == Rolling && Crumb(c.Used, c.Limit)
	return c.Want <= c.Used && c.Part <= c.Used && (still || c.retell() > 0)
}

// retell is after how long a process that is idle has to tell what has left a limit meanwhile; 0 if it need not, or
// tells it every second. It may be long for a window that is longer than a Window, because it leaves no faster.
func (c *Claim) retell() time.Duration {
	if c.Kind != Rolling || c.Tail <= window || Crumb(c.Used, c.Limit) {
		return 0
	}
	return time.Duration(c.Tail/steps) * time.Millisecond
}

// tellAgain makes a beat due so long after the last one, if it is not 0.
func (h *Holder) tellAgain(after time.Duration) {
	at := h.sent.at.Add(after)
	if after > 0 && (h.again.IsZero() || at.Before(h.again)) {
		h.again = at
	}
}

// Crumb reports whether so little is used of a rolling limit that it need not be told how it leaves
// the minute. It will count for a Window longer than the process is heard of; but else callers that
// come now and then would have to be told of all the time.
func Crumb(used, limit int64) bool { return used <= limit/16 }

// Part is how much of a limit the process may use; 0 once that has expired.
func (h *Holder) Part(now time.Time, name string) int64 {
	if !now.Before(h.until) {
		return 0
	}
	return h.parts[name]
}

// Until is when the parts expire.
func (h *Holder) Until() time.Time { return h.until }

// Fresh is until when the parts may be used without another sign that the store is there.
func (h *Holder) Fresh() time.Time { return h.fresh }

// Lasts reports whether all was granted that was asked for, for longer than a TTL, so that no beat is due meanwhile.
func (h *Holder) Lasts() bool { return h.lasts }

// Short reports whether less was granted than was wanted.
func (h *Holder) Short() bool { return h.short }

// Heard reports whether the last beat was answered, by an account that knows what this process knows. If it has a part, the account knew of it
// before the beat that comes next.
func (h *Holder) Heard() bool { return h.seq > 0 && h.acked == h.seq && h.known == h.epoch }

// Remind makes a beat due even if nothing has changed.
func (h *Holder) Remind() { h.quiet = false }

// Quiet reports whether no beat is due until calls come again.
func (h *Holder) Quiet() bool { return h.quiet }

// Lacks reports whether a call waited for more than was granted.
func (h *Holder) Lacks() bool { return h.lacks }

// Empty reports, of a Holder that is Quiet, whether the store keeps nothing of it.
func (h *Holder) Empty() bool { return h.empty }

// Leave makes the last beat, in which the process gives up everything that it does not use.
func (h *Holder) Leave(now time.Time, claims []Claim) *Beat {
	b := h.Beat(now, false, claims)
	b.Left = true
	for i := range b.Claims {
		c := &b.Claims[i]
		c.Part = min(c.Part, c.Used)
		c.Want = c.Used
		c.Need = 0
	}
	return b
}
