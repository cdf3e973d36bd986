package runner

import (
	"context"
	"math/rand/v2"
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
}

// Limits are one owner's limits as one process keeps them. All but Owner is called by one
// goroutine.
type Limits interface {
	Owner() string
	// Claims tells what is used and wanted, and whether calls run, wait, or have come.
	Claims(now time.Time) (claims []parts.Claim, busy bool)
	// Apply takes the answer to the last claims, which holds until then.
	Apply(now, until time.Time, list []parts.Part)
	// Alone says that nobody answers.
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
	known   map[Limits]*owner // all that were ever in use: what a holder counts goes on
	inUse   map[*owner]bool
	breaker breaker
	answers chan answer
	asking  sync.WaitGroup
}

// owner is one owner's limits, and what was said of them.
type owner struct {
	Limits
	held *parts.Holder
	// lacking says that a call waits for a part, and asked that an answer is awaited.
	busy, lacking, asked bool
}

// answer is what came back of a batch.
type answer struct {
	sent, at time.Time
	owners   []*owner
	replies  []parts.Reply
	err      error
}

// NewLimits returns a runner that does nothing yet.
func NewLimits(c LimitsConfig) *LimitsRunner {
	if c.Told == nil {
		c.Told = func(string, time.Duration, error) {}
	}
	return &LimitsRunner{cfg: c, known: map[Limits]*owner{}, inUse: map[*owner]bool{}, answers: make(chan answer)}
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
		case <-r.cfg.More:
			r.meet()
			r.beat(ctx, time.Now())
		case <-ticker.C:
			r.beat(ctx, time.Now())
		}
	}
}

// meet takes in limits that have come into use, or lack a part.
func (r *LimitsRunner) meet() {
	for _, l := range r.cfg.Limits() {
		o := r.known[l]
		if o == nil {
			o = &owner{Limits: l, held: parts.NewHolder(l.Owner(), r.cfg.Instance, rand.Uint64())}
			r.known[l] = o
		}
		r.inUse[o], o.lacking, o.busy = true, true, true
	}
}

// beat tells of the limits of which that is due.
func (r *LimitsRunner) beat(ctx context.Context, now time.Time) {
	open := !r.breaker.closed(now)
	var due []*owner
	for o := range r.inUse {
		switch {
		case o.asked || !o.held.Due(now, o.busy, o.lacking):
		case open:
			o.Alone(now)
		default:
			due = append(due, o)
		}
	}
	for len(due) > 0 {
		n := min(batch, len(due))
		r.ask(ctx, now, due[:n:n])
		due = due[n:]
	}
}

func (r *LimitsRunner) ask(ctx context.Context, now time.Time, list []*owner) {
	beats := make([]*parts.Beat, len(list))
	for i, o := range list {
		var claims []parts.Claim
		claims, o.busy = o.Claims(now)
		o.asked, o.lacking = true, false
		beats[i] = o.held.Beat(now, o.busy, claims)
	}
	r.asking.Go(func() {
		replies, err := r.send(ctx, beats)
		a := answer{sent: now, at: time.Now(), owners: list, replies: replies, err: err}
		select {
		case r.answers <- a:
		case <-ctx.Done():
		}
	})
}

func (r *LimitsRunner) send(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	replies, err := r.cfg.Store.Share(ctx, beats)
	r.cfg.Told(OpShare, time.Since(began), err)
	return replies, err
}

func (r *LimitsRunner) answered(a answer) {
	r.breaker.tell(a.at, a.err)
	for i, o := range a.owners {
		o.asked = false
		switch {
		case a.err != nil || i >= len(a.replies):
			o.Alone(a.at)
		case o.held.Answered(a.at, &a.replies[i]):
			o.Apply(a.at, o.held.Until(), a.replies[i].Parts)
			if o.held.Quiet() && o.Rest(a.at) {
				delete(r.inUse, o)
			}
		}
	}
}

// leave tells of all limits once more, and keeps nothing of what is not used.
func (r *LimitsRunner) leave() {
	r.asking.Wait()
	now := time.Now()
	var beats []*parts.Beat
	for o := range r.inUse {
		claims, _ := o.Claims(now)
		beats = append(beats, o.held.Leave(now, claims))
	}
	for len(beats) > 0 {
		n := min(batch, len(beats))
		if _, err := r.send(context.Background(), beats[:n]); err != nil {
			return // what was held expires, or is lost with its period
		}
		beats = beats[n:]
	}
}
