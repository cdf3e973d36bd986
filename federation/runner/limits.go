package runner

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// LimitStore keeps one parts.Account for each owner, for all processes. It is safe for concurrent
// use.
type LimitStore interface {
	// Share takes in beats and answers them, in their order. After an error it is unknown which
	// were taken in. The error may be parts.Failures.
	Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error)
	// Ask is parts.Ask.Tell, in one step. After an error it is unknown whether it was taken in. It may be parts.Failures.
	Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error)
}

// Limits are one owner's limits as one process keeps them. All methods but Owner are called by one
// goroutine.
type Limits interface {
	Owner() string
	// Claims states what is used and wanted now. busy says that calls run or wait, or have come.
	Claims(now time.Time) (claims []parts.Claim, busy bool)
	// Apply puts the answer to the last claims in force until the given time.
	Apply(now, until time.Time, list []parts.Part)
	// Alone says that nobody answers; it holds until Apply. unreadable says that the store does, but cannot read the account.
	Alone(now time.Time, unreadable bool)
	// Rest reports whether nobody needs to speak for the limits until they are listed anew.
	Rest(now time.Time) bool
	// Recalls reports whether an earlier process at this place used something of them that counts now. Recall has it
	// count as used by this one, because the store knows nothing of it any more.
	Recalls(now time.Time) bool
	Recall(now time.Time)
}

// RotatingLimits tell of some limits in turns, not in each beat. TellAll has them tell of all in the next claims, because the store has lost
// what it knew of them.
type RotatingLimits interface {
	Limits
	TellAll()
}

// LimitsConfig of a LimitsRunner.
type LimitsConfig struct {
	// Instance names the process: random, and new at each start.
	Instance string
	Store    LimitStore
	// Limits lists those that have come into use, or lack a part, since it was last called. More
	// holds an element when there are some.
	Limits func() []Limits
	More   <-chan struct{}
	// Calls lists those that have asked whether they may go since it was last called; nil is none.
	Calls func() []Call
	// Former is the epoch of an owner's account that this process, or an earlier one at this place, had heard of last; 0 is
	// unknown. Keep keeps it; 0 is that it need not be kept any more. They may be nil.
	Former func(owner string) int64
	Keep   func(owner string, epoch int64)
	// Sign is called with a sign of life and until when it is good, on which parts may depend that last (LastingLimits). It may be nil if none do.
	Sign func(number int, until time.Time)
	// Unreadable is called when the store cannot read an owner's account, and with nil when it can again, or nobody needs it. It may be nil.
	Unreadable func(owner string, err error)
	// Told is called after each round trip to the store, by any goroutine; it may be nil.
	Told func(op string, took time.Duration, err error)
}

// OpShare is the operation of a LimitStore that takes beats.
const OpShare = "share"

// LimitsRunner sends beats for the limits of one process.
type LimitsRunner struct {
	cfg      LimitsConfig
	known    map[Limits]*owner // all of which the store may keep something
	inUse    map[*owner]bool
	holders  int       // made so far
	heard    time.Time // when the last answered beat was sent, of any owner
	reminded time.Time // when limits that rest were last looked through
	lost     time.Time // when the store was last heard to have lost data
	signs    int       // of life, so far
	breaker  breaker
	asks     breaker           // for calls: a store that is too slow for these may do for beats
	behind   breaker           // for beats of limits that calls ask for, because calls wait for these
	far      bool              // the last of these beats took longer than calls can wait
	presence *presence         // while some parts may last; nil otherwise
	lasting  map[*owner]bool   // those whose parts last, and who have no beats meanwhile
	roots    map[string][]Call // calls that wait to be sent, by the root of their limits
	answers  chan answer
	asked    chan askAnswer
	asking   sync.WaitGroup
}

// owner is one owner's limits, and what the store was told of them.
type owner struct {
	Limits
	held *parts.Holder
	// heard is when the last answered beat was sent, or when calls began to come.
	heard time.Time
	// busy says that calls run or wait, or have come; lacking that one waits for a part; asked that
	// an answer is awaited; and alone that the limits were told that none comes.
	busy, lacking, asked, alone bool
	unreadable                  bool      // the store answers, but cannot read the account
	asks                        bool      // calls ask for these limits, as of the last beat
	asking                      bool      // the awaited answer is to calls
	turn                        int       // beats sent so far
	kept                        int64     // the epoch that is kept for a later process
	sign                        *sign     // on which parts that last depend; nil if none do
	wanted                      time.Time // when another process lacked some of these limits
}

// told notes that a beat was sent. Only its answer counts from now on.
func (o *owner) told() {
	o.asked = true
	o.turn = o.turn + 1
}

// turnsOf lists the owners' turns.
func turnsOf(list []*owner) (turns []int) {
	for _, o := range list {
		turns = append(turns, o.turn)
	}
	return turns
}

// NewLimits returns a runner that does nothing before Run.
func NewLimits(c LimitsConfig) *LimitsRunner {
	if c.Told == nil {
		c.Told = func(string, time.Duration, error) {}
	}
	if c.Unreadable == nil {
		c.Unreadable = func(string, error) {}
	}
	if c.Sign == nil {
		c.Sign = func(int, time.Time) {}
	}
	if c.Calls == nil {
		c.Calls = func() []Call { return nil }
	}
	if c.Former == nil {
		c.Former = func(string) int64 { return 0 }
	}
	if c.Keep == nil {
		c.Keep = func(string, int64) {}
	}
	return &LimitsRunner{
		cfg: c, known: map[Limits]*owner{}, inUse: map[*owner]bool{}, lasting: map[*owner]bool{}, roots: map[string][]Call{},
		answers: make(chan answer), asked: make(chan askAnswer),
	}
}

// Run sends beats until ctx ends. Then it waits for what is under way, and gives back everything
// that is not used.
func (r *LimitsRunner) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.leave()
			return nil
		case a := <-r.answers:
			r.answered(a)
			r.askAll(ctx)
		case a := <-r.asked:
			r.decide(a)
			r.askAll(ctx)
		case <-r.cfg.More:
			now := time.Now()
			r.queue(now)
			r.askAll(ctx)
			r.beat(ctx, now, slices.Values(r.meet(now)))
		case <-ticker.C:
			now := time.Now()
			r.remind(now)
			r.beat(ctx, now, maps.Keys(r.inUse))
		}
	}
}

// meet takes in limits that have come into use, or lack a part.
func (r *LimitsRunner) meet(now time.Time) (list []*owner) {
	for _, l := range r.cfg.Limits() {
		o := r.owner(l, now)
		o.lacking = true
		o.busy = true
		list = append(list, o)
	}
	return list
}

// owner returns the state of limits, for which beats are sent from now on.
func (r *LimitsRunner) owner(l Limits, now time.Time) *owner {
	o := r.known[l]
	if o == nil {
		r.holders++ // beats of an earlier Holder must not be taken for this one's
		instance := r.cfg.Instance + "." + strconv.Itoa(r.holders)
		o = &owner{Limits: l, held: parts.NewHolder(l.Owner(), instance, rand.Uint64())}
		former := r.cfg.Former(l.Owner())
		switch {
		case former > 0 && l.Recalls(now):
			o.held.Succeed(former)
		case now.Sub(r.lost) <= parts.TTL: // those who know of the limits may not have told yet
			o.held.Doubt()
		}
		r.known[l] = o
	}
	r.use(o, now)
	return o
}

// use begins to send beats for an owner's limits.
func (r *LimitsRunner) use(o *owner, now time.Time) {
	if len(r.inUse) == 0 {
		r.heard = now
	}
	if !r.inUse[o] {
		r.inUse[o] = true
		o.heard = now
		delete(r.lasting, o)
	}
}

const (
	// remindEvery is how often the store is told again what was used of limits that rest. The store may
	// have lost its data, and budgets last long.
	remindEvery = time.Minute
	// forgetAfter is when limits that rest are forgotten of which nothing is used: by then whoever has used them
	// since has told a store that has lost its data, and the account as it was heard of is still there.
	forgetAfter = 30 * time.Second
)

// remind makes limits that rest send a beat now and then, and at once when the store has lost data.
func (r *LimitsRunner) remind(now time.Time) {
	if now.Sub(r.reminded) < time.Second && !r.lost.After(r.reminded) {
		return
	}
	r.reminded = now
	r.attend(now)
	for l, o := range r.known {
		rests := now.Sub(o.heard)
		due := !o.held.Lasts() && o.held.Due(now, false, false) || o.held.Lasts() && rests >= tellAfter && l.(LastingLimits).Stirred()
		switch {
		case r.inUse[o]:
		case o.heard.Before(r.lost), rests >= remindEvery && !o.held.Empty(), due:
			r.use(o, now)
			o.held.Remind()
		case rests >= forgetAfter && o.held.Empty():
			delete(r.known, l)
			r.noteRead(o, nil)
			if !l.Recalls(now) {
				r.cfg.Keep(l.Owner(), 0)
			}
		}
	}
}
