package runner

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// LimitStore keeps one parts.Account an owner, for all processes. It is safe for
// concurrent use.
type LimitStore interface {
	// Share books what beats tell, and answers them in their order. After an error it is not
	// known which were booked.
	Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error)
	// Ask is parts.Ask.Tell, in one step. After an error it is not known whether it was booked.
	Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error)
}

// Limits are one owner's limits as one process keeps them. All but Owner is called by one
// goroutine.
type Limits interface {
	Owner() string
	// Claims tells what is used and wanted, and whether calls run, wait, or have come.
	Claims(now time.Time) (claims []parts.Claim, busy bool)
	// Apply takes the answer to the last claims, which holds until then.
	Apply(now, until time.Time, list []parts.Part)
	// Alone says that nobody answers, until Apply.
	Alone(now time.Time)
	// Rest reports whether nobody needs to speak for the limits until they are told of anew.
	Rest(now time.Time) bool
}

// LimitsConfig of a LimitsRunner.
type LimitsConfig struct {
	// Instance is the process's: random, new at each start.
	Instance string
	Store    LimitStore
	// Limits are those that have come into use, or lack a part, since it was asked last.
	// More takes a word when there are some.
	Limits func() []Limits
	More   <-chan struct{}
	// Calls are those that ask whether they may go, since it was asked last; nil is none.
	Calls func() []Call
	// Told is called after each round trip to the store. nil tells nobody.
	Told func(op string, took time.Duration, err error)
}

// OpShare is the operation of a LimitStore.
const OpShare = "share"

// batch is how many owners are told of in one round trip.
const batch = 256

// LimitsRunner beats for the limits of one process.
type LimitsRunner struct {
	cfg     LimitsConfig
	known   map[Limits]*owner // all of which the store may keep anything
	inUse   map[*owner]bool
	holders int       // that there ever were
	heard   time.Time // when the last beat was sent that was answered, of whomever
	minded  time.Time // when it was last looked for limits to tell of again
	breaker breaker
	asks    breaker           // for calls: a store that is too far for these serves beats still
	roots   map[string][]Call // that wait to be told of, by the root of their limits
	answers chan answer
	asked   chan askAnswer
	asking  sync.WaitGroup
}

// owner is one owner's limits, and what was said of them.
type owner struct {
	Limits
	held *parts.Holder
	// heard is when the last beat was sent that was answered, or when calls came.
	heard time.Time
	// lacking says that a call waits for a part, asked that an answer is awaited, and alone
	// that none is.
	busy, lacking, asked, alone bool
	asks                        bool // as Asks said last
	asking                      bool // what is awaited is the answer to calls
	turn                        int  // how often it was told of
}

// told says that an answer is awaited, and to nothing before.
func (o *owner) told() {
	o.asked, o.turn = true, o.turn+1
}

// turnsOf is what was told last of each.
func turnsOf(list []*owner) (turns []int) {
	for _, o := range list {
		turns = append(turns, o.turn)
	}
	return turns
}

// answer is what came back of a batch.
type answer struct {
	sent, at time.Time
	owners   []*owner
	turns    []int // of each, when it was told of
	replies  []parts.Reply
	err      error
}

// NewLimits returns a runner that does nothing yet.
func NewLimits(c LimitsConfig) *LimitsRunner {
	if c.Told == nil {
		c.Told = func(string, time.Duration, error) {}
	}
	if c.Calls == nil {
		c.Calls = func() []Call { return nil }
	}
	return &LimitsRunner{
		cfg: c, known: map[Limits]*owner{}, inUse: map[*owner]bool{}, roots: map[string][]Call{},
		answers: make(chan answer), asked: make(chan askAnswer),
	}
}

// Run beats until ctx ends. Then it gives back what is not used, and waits for what is
// under way.
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
		o.lacking, o.busy = true, true
		list = append(list, o)
	}
	return list
}

// owner is who has limits, of which it begins to tell.
func (r *LimitsRunner) owner(l Limits, now time.Time) *owner {
	o := r.known[l]
	if o == nil {
		r.holders++ // one that another goes on for must not be taken for it
		instance := r.cfg.Instance + "." + strconv.Itoa(r.holders)
		o = &owner{Limits: l, held: parts.NewHolder(l.Owner(), instance, rand.Uint64())}
		r.known[l] = o
	}
	r.use(o, now)
	return o
}

// use begins to tell of limits.
func (r *LimitsRunner) use(o *owner, now time.Time) {
	if len(r.inUse) == 0 {
		r.heard = now
	}
	if !r.inUse[o] {
		r.inUse[o], o.heard = true, now
	}
}

// remindEvery is how often the store is told again what was used of limits that rest: it may
// have lost its data, and budgets last for long.
const remindEvery = time.Minute

func (r *LimitsRunner) remind(now time.Time) {
	if now.Sub(r.minded) < time.Second {
		return
	}
	r.minded = now
	for _, o := range r.known {
		if !r.inUse[o] && now.Sub(o.heard) >= remindEvery {
			r.use(o, now)
			o.held.Remind()
		}
	}
}

// beat tells of those limits of which that is due.
func (r *LimitsRunner) beat(ctx context.Context, now time.Time, list iter.Seq[*owner]) {
	open := !r.breaker.closed(now)
	var due, waitedFor []*owner
	for o := range list {
		if !o.alone && r.silent(o, now) {
			o.alone = true
			o.Alone(now)
		}
		switch beat := !open && !o.asked && (o.held.Due(now, o.busy, o.lacking) || o.asks && o.Limits.(AskedLimits).Gives(now)); {
		case beat && o.asks:
			waitedFor = append(waitedFor, o)
		case beat:
			due = append(due, o)
		}
	}
	r.askBatches(ctx, now, due, patience)
	r.askBatches(ctx, now, waitedFor, askPatience) // else calls that ask would wait for a beat that is lost
}

func (r *LimitsRunner) askBatches(ctx context.Context, now time.Time, due []*owner, most time.Duration) {
	for len(due) > 0 {
		n := min(batch, len(due))
		r.ask(ctx, now, due[:n:n], most)
		due = due[n:]
	}
}

// silent reports whether nobody answers: not for so long as parts hold. Before that, calls are
// told to come back, or else each moment that the store is away would give each gateway all of
// the limits.
func (r *LimitsRunner) silent(o *owner, now time.Time) bool {
	return now.Sub(o.heard) >= parts.TTL || now.Sub(r.heard) >= parts.TTL
}

func (r *LimitsRunner) ask(ctx context.Context, now time.Time, list []*owner, most time.Duration) {
	beats := make([]*parts.Beat, len(list))
	for i, o := range list {
		beats[i] = o.beat(now)
	}
	turns := turnsOf(list)
	r.asking.Go(func() {
		replies, err := r.send(ctx, beats, most)
		a := answer{sent: now, at: time.Now(), owners: list, turns: turns, replies: replies, err: err}
		select {
		case r.answers <- a:
		case <-ctx.Done():
		}
	})
}

// beat is the next of an owner's. What calls that ask have given back is given up by it: what is
// still part of what the process may have would be nobody's until the beat after.
func (o *owner) beat(now time.Time) (b *parts.Beat) {
	if o.asks && o.Limits.(AskedLimits).Gives(now) {
		b, o.busy = o.held.Ask(now, o.Limits.(AskedLimits).GiveUp(now)), true
	} else {
		var claims []parts.Claim
		claims, o.busy = o.Claims(now)
		b = o.held.Beat(now, o.busy, claims)
	}
	o.told()
	o.lacking, o.asks = false, asked(o.Limits)
	b.Timed = o.asks
	return b
}

func (r *LimitsRunner) send(ctx context.Context, beats []*parts.Beat, most time.Duration) ([]parts.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	replies, err := r.cfg.Store.Share(ctx, beats)
	r.cfg.Told(OpShare, time.Since(began), err)
	return replies, err
}

func (r *LimitsRunner) answered(a answer) {
	r.breaker.tell(a.at, a.err)
	if a.err == nil {
		r.heard = a.sent
	}
	for i, o := range a.owners {
		r.put(o, &a, i)
	}
}

// put puts in force what one owner was answered, if it was, and reports whether it was.
func (r *LimitsRunner) put(o *owner, a *answer, i int) bool {
	if a.turns[i] != o.turn {
		return false // calls have overtaken it, which told all that it did
	}
	o.asked, o.asking = false, false
	if a.err != nil || i >= len(a.replies) || !o.held.Answered(a.at, &a.replies[i]) {
		o.held.Lost()
		o.lacking = o.lacking || o.held.Lacks()
		return false
	}
	o.heard, o.alone = a.sent, false
	o.Apply(a.at, o.held.Until(), a.replies[i].Parts)
	o.lacking = o.lacking || o.held.Lacks()
	switch {
	case !o.held.Quiet():
	case !o.Rest(a.at):
		o.busy = true // calls came in the meantime, of which nobody else would tell
	default:
		delete(r.inUse, o)
		if o.held.Empty() {
			delete(r.known, o.Limits)
		}
	}
	return true
}

// leave tells of all limits once more, and keeps nothing of what is not used.
func (r *LimitsRunner) leave() {
	r.asking.Wait()
	now := time.Now()
	var beats []*parts.Beat
	for _, o := range r.known {
		claims, _ := o.Claims(now)
		beats = append(beats, o.held.Leave(now, claims))
	}
	for len(beats) > 0 {
		n := min(batch, len(beats))
		if _, err := r.send(context.Background(), beats[:n], patience); err != nil {
			return // what was held expires, or is lost with its period
		}
		beats = beats[n:]
	}
}
