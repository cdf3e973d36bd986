package gateway

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/events"
)

// eventView is an event as the stream shows it. What does not apply is left out.
type eventView struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Tenant  string    `json:"tenant,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Model   string    `json:"model,omitempty"`
	Request string    `json:"request,omitempty"`
	Stream  bool      `json:"stream,omitempty"`

	// Asked is what a call may take at most.
	Asked      *askedView   `json:"asked,omitempty"`
	Background bool         `json:"background,omitempty"`
	Waited     *float64     `json:"waited_seconds,omitempty"`
	Refusal    *refusalView `json:"refusal,omitempty"`
	// Shadow says that the refusal was not enforced.
	Shadow bool `json:"shadow,omitempty"`

	Failure *failureView `json:"failure,omitempty"`

	Ending string    `json:"ending,omitempty"`
	Usage  *tookView `json:"usage,omitempty"`
	Ran    *float64  `json:"ran_seconds,omitempty"`

	Cuts       []cutView `json:"cuts,omitzero"`
	PolicyHash string    `json:"policy_hash,omitempty"`
}

type askedView struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// refusalView explains a refusal: whose limit it was, and how that stood.
type refusalView struct {
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Reason     string  `json:"reason"`
	Of         string  `json:"of"`
	Axis       string  `json:"axis,omitempty"`
	Limit      int64   `json:"limit"`
	Used       int64   `json:"used"`
	Asked      int64   `json:"asked"`
	RetryAfter float64 `json:"retry_after_seconds"`
	Kept       bool    `json:"place_kept"`
	Message    string  `json:"message"`
}

// failureView explains why an admitted call failed.
type failureView struct {
	Upstream string `json:"upstream,omitempty"`
	Status   int    `json:"status"` // that the client was answered
	Class    string `json:"class"`
	Cause    string `json:"cause,omitempty"`
}

type tookView struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"`
}

// cutView is what is missing of a pool until a time.
type cutView struct {
	RateRatio float64   `json:"rate_ratio"`
	TPM       int64     `json:"tpm"`
	RPM       int64     `json:"rpm"`
	Until     time.Time `json:"until"`
}

func viewEvent(e *events.Event) *eventView {
	req := &e.Request
	v := &eventView{
		Time: e.At.UTC(), Kind: e.Kind(), Tenant: req.Tenant, Pool: req.Pool, Model: req.Model, Request: req.ID, Stream: req.Stream,
		PolicyHash: e.Revision,
	}
	if e.Failure != nil {
		ran := e.Ran.Seconds()
		v.Ran = &ran
		v.Failure = &failureView{e.Failure.Upstream, e.Failure.Status, e.Failure.Class, e.Failure.Cause}
		return v
	}
	switch e.Event.Kind {
	case governor.EventAdmitted, governor.EventRefused:
		waited := e.Waited.Seconds()
		v.Waited, v.Background, v.Asked = &waited, req.Background, &askedView{req.Input, req.Output}
		if e.Refused != nil {
			v.Shadow, v.Refusal = e.Event.Kind == governor.EventAdmitted, viewRefusal(e.Refused)
		}
	case governor.EventEnded:
		ran := e.Ran.Seconds()
		v.Ending, v.Ran = e.Ending.String(), &ran
		v.Usage = &tookView{e.Usage.Input, e.Usage.CachedInput, e.Usage.Output, e.Usage.Reasoning}
	case governor.EventThrottled:
		v.Cuts = []cutView{}
		for _, c := range e.Cuts {
			v.Cuts = append(v.Cuts, cutView{float64(c.Part) / governor.Whole, c.TPM, c.RPM, c.Until.UTC()})
		}
	}
	return v
}

// viewRefusal shows a refusal. If it is by a budget, limit, used and asked are in its unit, and
// dollars in millionths.
func viewRefusal(rej *governor.Rejection) *refusalView {
	said := rejected(rej)
	v := &refusalView{
		Status: said.status, Code: said.code, Reason: rej.Reason.String(), Of: "pool " + rej.Pool, Axis: axisOf(rej),
		Limit: rej.Limit, Used: rej.Used, Asked: rej.Asked, RetryAfter: rej.RetryAfter.Seconds(), Kept: rej.Kept, Message: said.message,
	}
	if rej.Own {
		v.Of = rej.Tenant
	}
	return v
}
