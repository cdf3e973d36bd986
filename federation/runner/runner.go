package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// Store keeps one federation.Account for each pool, for all nodes. It is safe for concurrent use.
// Whatever implements it passes the suite of package storetest.
type Store interface {
	// Beat is Account.Beat, in one step. After an error it is unknown whether the beat was booked.
	Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error)
	// Look reads a pool's account. It is empty if no node has told of the pool.
	Look(ctx context.Context, pool string) (federation.View, error)
}

// Pool is this process's side of a pool whose limits are shared. It is safe for concurrent use. A
// report reflects the commands applied before it.
type Pool interface {
	Name() string
	// Pressure is how much it lacks now; ok says that it has limits to share.
	Pressure(now time.Time) (p federation.Pressure, ok bool)
	Report(now time.Time) *federation.Report
	Apply(now time.Time, commands []federation.Command)
	// Learns says that nothing is granted until the given time; forgot says that the store had data before.
	Learns(until time.Time, forgot bool)
	// Alone says that no answers come, and how many nodes there were according to the last one; 0
	// if that is unknown.
	Alone(now time.Time, nodes int)
	// Expect is how many nodes there are according to the configuration, or 0.
	Expect() int
}

// Config of a Runner.
type Config struct {
	// Name is the node's, unique among all that share the store. Instance names the process:
	// random, and new at each start.
	Name, Region, Instance string
	// Address returns where other nodes can reach this one, or nothing. It is called for each beat; nil is nowhere.
	Address func() string
	Store   Store
	// Rules default to federation.DefaultRules.
	Rules federation.Rules
	// Pools returns the present pools. It is called again and again; each new pool gets a node of
	// its own.
	Pools func() []Pool
	// Memory returns what an earlier process kept of a pool, or nil, and Keep keeps it for a later one. They may be nil. Keep
	// is called by any goroutine.
	Memory func(pool string) *federation.Memory
	Keep   func(pool string, m federation.Memory)
	// Told is called after each round trip to the store, by any goroutine; it may be nil.
	Told func(Event)
	// Uncounted is called once when other nodes may have stopped counting what runs in a pool: this
	// node was fenced, or is cut off from the store, and the last beat that was booked is a Window
	// ago. Until then all that runs counts as planned. What has ended, or was booked when it began,
	// is of no interest by then; but where calls are counted when they end, or as they produce, one
	// may want to end them (governor.Governor.Interrupt). The cause is ErrFenced or ErrCutOff. No
	// beat is sent for the pool until Uncounted returns. It may be nil.
	Uncounted func(pool string, cause error)
}

// Event is one round trip to the store.
type Event struct {
	Pool string
	Op   string // OpBeat or OpLook
	Took time.Duration
	// Reply is the answer to a beat, if there was one, and View that to a look.
	Reply federation.Reply
	View  federation.View
	Err   error
}

// The operations of a Store.
const (
	OpBeat = "beat"
	OpLook = "look"
)

const (
	tick = 25 * time.Millisecond
	// patience is how long an answer is waited for. The beat after it still comes before a grant
	// expires, so that a store a second away serves as well as a near one.
	patience = 1250 * time.Millisecond
	// The breaker is open for least after an error, and at most for most.
	least, most = 100 * time.Millisecond, 2 * time.Second
	// lookForPools is how often Config.Pools is called.
	lookForPools = 250 * time.Millisecond
)

// Runner sends beats for the pools of one process.
type Runner struct {
	cfg Config

	first chan struct{} // closed when the first beat of each pool is done

	mu         sync.Mutex
	states     map[string]State // guarded by mu
	unanswered map[string]bool  // pools whose first beat is not done; guarded by mu
	formats    formats          // guarded by mu
}

// New returns a runner that does nothing before Run.
func New(c Config) *Runner {
	if c.Rules == (federation.Rules{}) {
		c.Rules = federation.DefaultRules()
	}
	if c.Told == nil {
		c.Told = func(Event) {}
	}
	if c.Address == nil {
		c.Address = func() string { return "" }
	}
	if c.Memory == nil {
		c.Memory = func(string) *federation.Memory { return nil }
	}
	if c.Keep == nil {
		c.Keep = func(string, federation.Memory) {}
	}
	if c.Uncounted == nil {
		c.Uncounted = func(string, error) {}
	}
	return &Runner{cfg: c, states: map[string]State{}, first: make(chan struct{})}
}

// First is closed when the first beat of each pool that there was at the start has been answered with a grant, or has failed, or is
// followed by another: a new store that hears of the last node that it expects grants in answer to its second beat.
func (r *Runner) First() <-chan struct{} { return r.first }

// Run sends beats until ctx ends, and then waits for what is under way.
func (r *Runner) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	beaten := map[string]bool{}
	r.begin()
	look := time.NewTicker(lookForPools)
	defer look.Stop()
	for {
		for _, p := range r.cfg.Pools() {
			if !beaten[p.Name()] {
				beaten[p.Name()] = true
				group.Go(func() { r.beat(ctx, p) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// beat sends beats for one pool until ctx ends, or another process takes the node's name.
func (r *Runner) beat(ctx context.Context, p Pool) {
	n := federation.NewNode(federation.Config{
		Name: r.cfg.Name, Region: r.cfg.Region, Instance: r.cfg.Instance, Rules: r.cfg.Rules, Seed: rand.Uint64(),
		Memory: r.cfg.Memory(p.Name()),
	})
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var b breaker
	var l looks
	defer l.group.Wait()
	var c counted
	c.book(r, time.Now()) // nothing runs yet
	for {
		now := time.Now()
		pressure, ok := p.Pressure(now)
		if ok && b.closed(now) && n.Due(now, pressure) && r.once(ctx, p, n, &b, &c) {
			c.outlive(ctx, r, p.Name())
			return
		}
		if s, _ := r.State(p.Name()); !ok || s.Reply.Status != federation.Learning || s.Beats > 1 || p.Expect() == 0 {
			r.firstDone(p.Name())
		}
		if ok {
			r.look(ctx, p, &l)
		} else {
			r.forget(p.Name())
			c.book(r, now)
		}
		if b.errors > 0 {
			c.lapse(r, now, p.Name(), ErrCutOff)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// once sends one beat, and reports whether the node was fenced.
func (r *Runner) once(ctx context.Context, p Pool, n *federation.Node, b *breaker, c *counted) (fenced bool) {
	now := time.Now()
	for _, command := range n.Step(now, p.Report(now)) {
		send, ok := command.(federation.Send)
		if !ok {
			panic(fmt.Sprintf("llmgov: BUG: a report was answered by %T", command))
		}
		send.Beat.Expect = p.Expect()
		send.Beat.Address = r.cfg.Address()
		reply, err := r.send(ctx, p, send.Beat)
		back := time.Now()
		if ctx.Err() != nil {
			return false
		}
		ev := Event{Pool: p.Name(), Op: OpBeat, Took: back.Sub(now), Reply: reply, Err: err}
		if err == nil {
			commands := n.Step(back, &reply)
			for _, command := range commands {
				_, stop := command.(federation.Stop)
				fenced = fenced || stop
			}
			if m, ok := n.Memory(); ok && len(reply.Digest) > 0 {
				r.cfg.Keep(p.Name(), m)
			}
			p.Apply(back, commands)
			if reply.Status == federation.Granted || reply.Status == federation.Learning {
				c.book(r, now)
			}
			if reply.Status == federation.Learning {
				p.Learns(now.Add(time.Duration(reply.Until-reply.Now)*time.Millisecond), reply.Lost)
			}
		}
		b.tell(now, back, err)
		r.note(back, &ev, send.Beat)
		r.cfg.Told(ev)
	}
	return fenced
}

func (r *Runner) send(ctx context.Context, p Pool, b *federation.Beat) (federation.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, min(patience, r.cfg.Rules.TTL))
	defer cancel()
	return r.cfg.Store.Beat(ctx, p.Name(), b)
}

// breaker keeps a store that does not answer from being asked too often.
type breaker struct {
	errors int
	failed time.Time // when the last of them was
	until  time.Time
}

func (b *breaker) closed(now time.Time) bool { return !now.Before(b.until) }

// tell takes in what came of what was sent then. What fails that was on its way when another failed
// has met the same moment, and says nothing new: with many on their way at once one moment that the
// store is away would look like a long time.
func (b *breaker) tell(sent, now time.Time, err error) {
	if err == nil {
		*b = breaker{}
		return
	}
	if sent.Before(b.failed) {
		return
	}
	b.failed = now
	pause := min(least<<min(b.errors, 10), most)
	b.errors++
	b.until = now.Add(time.Duration(float64(pause) * (0.5 + 0.5*rand.Float64())))
}
