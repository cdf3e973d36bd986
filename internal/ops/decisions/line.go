package decisions

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
)

// Line is one line. Fields that do not apply are left out.
type Line struct {
	// At is the time in nanoseconds since the start of the run.
	At   int64 `json:"t"`
	Kind Kind  `json:"ev"`
	// Call is the number of the call in this run.
	Call uint64 `json:"n,omitempty"`

	Ask    *Ask   `json:"ask,omitempty"`
	Waited int64  `json:"waited,omitempty"` // nanoseconds
	Why    *Why   `json:"why,omitempty"`    // for a call admitted only because of shadow: the refusal
	Ending string `json:"ending,omitempty"`
	// MicroUSD is what the call costs, in millionths of a dollar; absent if its model has no price.
	MicroUSD *int64 `json:"micro_usd,omitempty"`
	// Upstream is where the call is counted, if upstreams have limits of their own. Upstreams are those to which it could go when
	// it moved there; none is all.
	Upstream  string          `json:"upstream,omitempty"`
	Upstreams []string        `json:"upstreams,omitempty"`
	Sent      bool            `json:"sent,omitempty"` // before it moved, so that it counts as a request there
	Usage     *governor.Usage `json:"usage,omitempty"`
	Output    int64           `json:"output,omitempty"`
	Pool      string          `json:"pool,omitempty"`
	Cuts      []Cut           `json:"cuts,omitempty"`
	Load      *governor.Load  `json:"load,omitempty"`
	Told      *governor.Told  `json:"told,omitempty"`
	Lines     uint64          `json:"lines,omitempty"` // that are lost
	// Nodes are the gateways that share limits.
	Nodes []string `json:"nodes,omitempty"`

	Start  *Start  `json:"start,omitempty"`
	Policy *Policy `json:"policy,omitempty"`
}

// Kind is the kind of a line.
type Kind string

// The kinds of lines.
const (
	Started   Kind = "start"    // a run begins
	Continued Kind = "continue" // a file begins, in a run that goes on
	Asked     Kind = "ask"
	Admitted  Kind = "admit"
	Refused   Kind = "refuse"
	Left      Kind = "leave"
	Progress  Kind = "progress"
	Ended     Kind = "end"
	Throttled Kind = "throttle"
	Applied   Kind = "apply"
	Drained   Kind = "drain"
	Overload  Kind = "overload" // the upstream refused the call because it lacks capacity
	Late      Kind = "late"     // the upstream did not answer the call in time
	Retried   Kind = "retry"    // the call was sent again, most often to another upstream
	Failed    Kind = "fail"     // the upstream failed the call
	Moved     Kind = "move"     // the call is counted at another upstream from here on, and took usage of the one before
	Loaded    Kind = "load"     // the load of a pool's servers, as they told it
	Told      Kind = "store"    // what came of the store: the grants
	Lost      Kind = "lost"
	Seen      Kind = "nodes" // from here on other gateways share the limits
)

// Version is that of the format.
const Version = 1

// Start is the first line of a run or a file.
type Start struct {
	Version int `json:"version"`
	// Time is the wall-clock time of instant 0.
	Time time.Time         `json:"time"`
	Zone string            `json:"zone"`
	Past *record.PastState `json:"past,omitempty"`
	// Fresh is governor.Config.Fresh.
	Fresh bool `json:"fresh,omitempty"`
	// Node is the gateway's name; Shared is whether it shares limits with others, and Grants whether all is in the log that it was granted.
	Node   string `json:"node,omitempty"`
	Shared bool   `json:"shared,omitempty"`
	Grants bool   `json:"grants,omitempty"`
}

// Policy is a policy as the governor has it.
type Policy struct {
	Hash    string            `json:"hash"`
	Pools   []governor.Pool   `json:"pools"`
	Tenants []governor.Tenant `json:"tenants"`
}

// Ask is the request of a call.
type Ask struct {
	Request     string          `json:"request,omitempty"`
	Tenant      string          `json:"tenant"`
	Pool        string          `json:"pool"`
	Model       string          `json:"model,omitempty"`
	Input       int64           `json:"input"`
	Output      int64           `json:"output"`
	Price       *governor.Price `json:"price,omitempty"`
	Tier        string          `json:"tier,omitempty"`     // of service
	MaxWait     *int64          `json:"max_wait,omitempty"` // nanoseconds
	Pause       time.Duration   `json:"pause,omitempty"`    // nanoseconds
	Stream      bool            `json:"stream,omitempty"`
	Background  bool            `json:"background,omitempty"`
	Below       int             `json:"below,omitempty"` // how far its priority is below the highest
	Claim       escrow.Claim    `json:"claim,omitzero"`
	Forced      bool            `json:"forced,omitempty"`
	BudgetsOnly bool            `json:"budgets_only,omitempty"`
	Booked      Booked          `json:"booked,omitzero"`
	Told        bool            `json:"told,omitempty"`
	// Upstreams are those to which the call could go, if not all; Conversation is the one to which it belongs.
	Upstreams    []string `json:"upstreams,omitempty"`
	Conversation uint64   `json:"conversation,omitempty"`
}

// Booked are tokens that rolling limits had booked before.
type Booked struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Why is the reason of a refusal: the limit, its owner and its usage.
type Why struct {
	Reason     string `json:"reason"`
	Own        bool   `json:"own,omitempty"`
	Tenant     string `json:"tenant,omitempty"`
	Axis       string `json:"axis,omitempty"`
	Limit      int64  `json:"limit"`
	Used       int64  `json:"used"`
	Asked      int64  `json:"asked"`
	RetryAfter int64  `json:"retry_after"` // nanoseconds
}

// Cut is a governor.Cut; Until is in nanoseconds since the start.
type Cut struct {
	Part  int64 `json:"part"`
	TPM   int64 `json:"tpm,omitempty"`
	RPM   int64 `json:"rpm,omitempty"`
	ITPM  int64 `json:"itpm,omitempty"`
	OTPM  int64 `json:"otpm,omitempty"`
	Paced bool  `json:"paced,omitempty"`
	Until int64 `json:"until"`
	// Upstream is the one that it is of, if upstreams have limits of their own.
	Upstream string `json:"upstream,omitempty"`
}

// lineOf is the line of an event of a run that began at origin.
func lineOf(e *governor.Event, origin time.Time) Line {
	l := Line{At: int64(e.At.Sub(origin)), Call: e.Call, Kind: kinds[e.Kind]}
	switch e.Kind {
	case governor.EventStarted:
		l.Start = &Start{Version: Version, Time: origin.Round(0).UTC(), Zone: "UTC", Past: e.Past, Fresh: e.Config.Fresh, Shared: e.Config.Shared}
		l.Start.Grants = e.Config.Recorded && e.Config.Shared && e.Config.SharedLimits && e.Config.SharedSlots
		if e.Config.Zone != nil {
			l.Start.Zone = e.Config.Zone.String()
		}
		l.Policy = policyOf(e)
	case governor.EventApplied:
		l.Policy = policyOf(e)
	case governor.EventAsked:
		l.Ask = askOf(&e.Request)
		l.Ask.Upstreams = e.Upstreams
	case governor.EventAdmitted, governor.EventRefused:
		l.Waited = int64(e.Waited)
		l.Why = WhyOf(e.Refused)
		l.Upstream = e.Upstream
	case governor.EventEnded:
		l.Ending = e.Ending.String()
		l.Usage = &e.Usage
		if e.Request.Price != nil {
			l.MicroUSD = &e.MicroUSD
		}
	case governor.EventMoved:
		l.Usage = &e.Usage
		l.Upstream = e.Upstream
		l.Upstreams = e.Upstreams
		l.Sent = e.Sent
	case governor.EventProgress:
		l.Output = e.Usage.Output
	case governor.EventThrottled:
		l.Pool = e.Request.Pool
		for _, c := range e.Cuts {
			l.Cuts = append(l.Cuts, Cut{Part: c.Part, TPM: c.TPM, RPM: c.RPM, ITPM: c.ITPM, OTPM: c.OTPM, Paced: c.Paced, Until: int64(c.Until.Sub(origin)), Upstream: c.Upstream})
		}
	case governor.EventTold:
		l.Told = e.Told
	case governor.EventLoaded:
		l.Pool = e.Request.Pool
		l.Load = &e.Load
	}
	return l
}

var kinds = map[governor.EventKind]Kind{
	governor.EventStarted: Started, governor.EventAsked: Asked, governor.EventAdmitted: Admitted, governor.EventRefused: Refused,
	governor.EventLeft: Left, governor.EventProgress: Progress, governor.EventEnded: Ended, governor.EventThrottled: Throttled,
	governor.EventApplied: Applied, governor.EventDrained: Drained, governor.EventOverloaded: Overload, governor.EventLate: Late,
	governor.EventRetried: Retried, governor.EventMoved: Moved, governor.EventLoaded: Loaded, governor.EventFailed: Failed,
	governor.EventTold: Told,
}

func policyOf(e *governor.Event) *Policy {
	return &Policy{e.Revision, e.Config.Pools, e.Config.Tenants}
}

func askOf(r *governor.Request) *Ask {
	a := &Ask{
		Request: r.ID, Tenant: r.Tenant, Pool: r.Pool, Model: r.Model, Input: r.Input, Output: r.Output, Price: r.Price, Tier: r.Tier,
		Pause: r.Pause, Stream: r.Stream, Background: r.Background, Below: r.Below, Claim: r.Claim, Forced: r.Forced, BudgetsOnly: r.BudgetsOnly, Booked: Booked(r.Booked), Told: r.Told, Conversation: r.Conversation,
	}
	if r.MaxWait != nil {
		wait := int64(*r.MaxWait)
		a.MaxWait = &wait
	}
	return a
}

// Of is the governor's request.
func (a *Ask) Of() governor.Request {
	r := governor.Request{
		ID: a.Request, Tenant: a.Tenant, Pool: a.Pool, Model: a.Model, Input: a.Input, Output: a.Output, Price: a.Price, Tier: a.Tier,
		Pause: a.Pause, Stream: a.Stream, Background: a.Background, Below: a.Below, Claim: a.Claim, Forced: a.Forced, BudgetsOnly: a.BudgetsOnly, Booked: governor.Booked(a.Booked), Told: a.Told, Conversation: a.Conversation,
	}
	if a.MaxWait != nil {
		wait := time.Duration(*a.MaxWait)
		r.MaxWait = &wait
	}
	return r
}

// WhyOf is the form of a refusal in lines; may be nil.
func WhyOf(rej *governor.Refusal) *Why {
	if rej == nil {
		return nil
	}
	w := &Why{
		Reason: rej.Reason.String(), Own: rej.Own, Tenant: rej.Tenant, Axis: rej.Axis,
		Limit: rej.Limit, Used: rej.Used, Asked: rej.Asked, RetryAfter: int64(rej.RetryAfter),
	}
	if rej.Budget.Limit > 0 {
		w.Axis = rej.Budget.Name()
	}
	return w
}
