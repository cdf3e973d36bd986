package scenario

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/distribution"
)

// Scenario is traffic upon one pool, as a scenario file describes it. It holds
// no state: the same scenario and seed make the same run.
type Scenario struct {
	Name string
	// About is the purpose of the scenario, in one sentence.
	About string
	// Duration is how much virtual time a run takes; Warmup, at its start, is left
	// out of all averages.
	Duration, Warmup time.Duration
	// Seeds are the runs to make when the caller names none.
	Seeds []uint64
	Pool  Pool
	// Estimates says whether a request's length is known when it asks.
	Estimates Estimates
	// Refuse says how callers that cannot be served at once behave.
	Refuse Refuse
	// Patience is how long an open-loop caller tries before it gives up.
	Patience time.Duration
	// Nodes are the processes that share the pool; none for one that has it alone.
	Nodes []Node
	// Tenants are the children of the pool.
	Tenants []Tenant
	Events  []Event
	// Source is the text that the scenario was read from, and File the path of the file; empty for a
	// named scenario.
	Source []byte
	File   string
}

// Pool is the capacity that is shared. A limit of 0 turns its axis off.
type Pool struct {
	terms.Pool
	// Knee is how many calls the model server behind the pool serves at once, at the start: the others wait there.
	// 0 is no server that makes calls wait.
	Knee int64
	// Cache is how many tokens of conversations each of Upstreams keeps; 0 is none.
	Cache int64
	// Spreads says that the calls of a conversation are not kept together.
	Spreads bool
}

// CountsTokens reports whether a limit of the pool is on tokens of any kind.
func (p *Pool) CountsTokens() bool { return p.TPM+p.ITPM+p.OTPM > 0 }

// Slots is how many calls can be served at once by a server with such a knee.
func (p Pool) Slots(knee int64) int64 {
	if p.Knee == 0 {
		return p.Concurrency
	}
	return min(knee, p.Concurrency)
}

// Estimates is the admission's knowledge of a request's length beforehand.
type Estimates int

const (
	// Exact lengths are declared with the request.
	Exact Estimates = iota
	// Learned lengths are guessed from the ones that ended before.
	Learned
)

// Refuse is how callers wait.
type Refuse int

const (
	// Wait queues for as long as the caller's patience.
	Wait Refuse = iota
	// Deny refuses at once; callers come back by a backoff of their own.
	Deny
	// DenyHinted refuses at once; callers come back when they are told to.
	DenyHinted
	// SDK refuses at once; callers come back twice, as the SDKs of providers do.
	SDK
)

// Tenant is a node of the tree of claims. One with Teams is an inner node, and
// has no load of its own.
type Tenant struct {
	Name       string
	Weight     escrow.Weight
	Background bool
	// Below is how many bands its calls are below the highest, in a pool with HoldBackPPM.
	Below int
	// Via is the set of upstreams that its calls may use; 0 is all.
	Via      escrow.Mask
	FloorTPM int64
	Credit   time.Duration
	Load     Load
	Work     Work
	Spread   Spread
	Teams    []Tenant
}

// LoadKind is the manner in which a tenant asks.
type LoadKind int

const (
	// Absent asks for nothing.
	Absent LoadKind = iota
	// Open asks at random times, whatever becomes of it.
	Open
	// Backlogged has a number of workers, each of which always has a request.
	Backlogged
	// OnOff is Open for a while, then silent for a while, over and over.
	OnOff
	// Recorded asks as it once was asked, whatever becomes of it.
	Recorded
)

// Load is a tenant's demand over time.
type Load struct {
	Kind LoadKind
	// TokensPerSecond or RequestsPerSecond is the mean rate of Open and of the on
	// phase of OnOff; the other is 0.
	TokensPerSecond, RequestsPerSecond float64
	Workers                            int
	// Turns is how many calls a worker's conversation has, each of which begins with all that was said before; 0 is calls without one.
	Turns   int64
	On, Off time.Duration
	// Start is when the first on phase begins; negative for a random point of the
	// first cycle.
	Start time.Duration
	// Calls are those of Recorded, in the order of their times.
	Calls []Call
}

// Call is one that was made once.
type Call struct {
	// At is when it came, from the start of the run.
	At time.Duration
	// Input and Output are its tokens.
	Input, Output int64
}

// Work is the cost and the duration of requests.
type Work struct {
	// Cost is tokens a request, Service its run time in seconds.
	Cost, Service Dist
	// Classes, when there are any, replace both: each is a kind of streamed call.
	Classes []Class
}

// Dist is a distribution of positive numbers.
type Dist = distribution.Distribution

// Class is a kind of streamed call whose output is lognormal around a median.
type Class struct {
	Share  float64
	Median float64
	Sigma  float64
	// Max is the max_tokens that callers declare, where output is cut.
	Max float64
	// TokensPerSecond is the speed of output, SpeedSigma how much streams differ
	// (as the sigma of a lognormal factor).
	TokensPerSecond, SpeedSigma float64
	// FirstToken is the range of times until output begins.
	FirstToken Span
	// Input is the length of the prompt, known and counted at the start.
	Input Dist
}

// Span is a range of times, of which one is drawn for each use.
type Span struct{ From, To time.Duration }

// Event changes the traffic while a scenario runs.
type Event struct {
	// At is when; Every, when positive, repeats it until the end.
	At    Span
	Every time.Duration
	// Tenant is the path of a tenant, "org/team"; empty for all.
	Tenant string
	// Load is the tenant's new load, when it is not nil.
	Load *Load
	// CostFactor multiplies the cost of requests from then on, when it is not 0.
	CostFactor float64
	// Knee is that of the model server from then on, when it is not nil. With 0 it begins no call.
	Knee *int64
	// Outage is of one node for a while, when it is not nil.
	Outage *Outage
	// Loss is of one upstream for a while, when it is not nil.
	Loss *Loss
}

// Loss breaks off the calls that run at an upstream, and has none begin there for a while.
type Loss struct {
	Upstream int // index
	For      time.Duration
}

// Outage cuts a node off from the store, or ends its process with all that it has.
type Outage struct {
	Node  int // index
	Crash bool
	// For is how long; a crashed process is there again after it.
	For time.Duration
}

// Argument is how the scenario is called on the command line.
func (s *Scenario) Argument() string {
	if s.File == "" {
		return s.Name
	}
	if strings.ContainsAny(s.File, " '\"$\\") {
		return strconv.Quote(s.File)
	}
	return s.File
}

// Node is one process of several that share the pool by way of a store.
type Node struct {
	Name string
	// Delay is that of the way to the store, one way.
	Delay time.Duration
}

// Spread is by which nodes a tenant's requests come.
type Spread struct {
	// Parts are by node; nil for the same by each.
	Parts []float64
	// Period is how long the parts take to wander once around the nodes, 0 for ever;
	// Swing how far they go, 0 to 1; and Phase where they begin, in turns.
	Period       time.Duration
	Swing, Phase float64
}

// PartsAt writes the parts of all nodes at a time into out; their sum is not 1.
func (s *Spread) PartsAt(at time.Duration, out []float64) {
	for i := range out {
		out[i] = 1
		if s.Parts != nil {
			out[i] = s.Parts[i]
		}
		if s.Period > 0 {
			turn := at.Seconds()/s.Period.Seconds() + s.Phase + float64(i)/float64(len(out))
			out[i] *= 1 + s.Swing*math.Cos(2*math.Pi*turn)
		}
	}
}

// Draw is a time of the range, all alike.
func (s Span) Draw(rng *rand.Rand) time.Duration {
	if s.To <= s.From {
		return s.From
	}
	return s.From + time.Duration(rng.Int64N(int64(s.To-s.From)))
}
