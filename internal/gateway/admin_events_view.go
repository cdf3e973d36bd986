package gateway

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/events"
)

func viewEvent(e *events.Event) *adminapi.Event {
	req := &e.Request
	v := &adminapi.Event{
		Time: e.At.UTC(), Kind: e.Kind(), Tenant: req.Tenant, Pool: req.Pool, Model: req.Model, Request: req.ID, Stream: req.Stream,
		PolicyHash: e.Revision,
	}
	if e.Failure != nil {
		ran := e.Ran.Seconds()
		v.Ran = &ran
		v.Failure = &adminapi.Failure{
			Upstream: e.Failure.Upstream,
			Status:   e.Failure.Status,
			Class:    e.Failure.Class,
			Cause:    e.Failure.Cause,
		}
		return v
	}
	switch e.Event.Kind {
	case governor.EventAdmitted, governor.EventRefused:
		waited := e.Waited.Seconds()
		v.Waited = &waited
		v.Background = req.Background
		v.Asked = &adminapi.Asked{Input: req.Input, Output: req.Output}
		if e.Refused != nil {
			v.Shadow = e.Event.Kind == governor.EventAdmitted
			v.Refusal = viewRefusal(e.Refused)
		}
	case governor.EventEnded:
		ran := e.Ran.Seconds()
		v.Ending = e.Ending.String()
		v.Ran = &ran
		v.Usage = &adminapi.Usage{
			Input:       e.Usage.Input,
			CachedInput: e.Usage.CachedInput,
			Output:      e.Usage.Output,
			Reasoning:   e.Usage.Reasoning,
		}
	case governor.EventThrottled:
		v.Cuts = []adminapi.Cut{}
		for _, c := range e.Cuts {
			v.Cuts = append(v.Cuts, adminapi.Cut{
				RateRatio: float64(c.Part) / governor.Whole,
				TPM:       c.TPM,
				RPM:       c.RPM,
				Until:     c.Until.UTC(),
			})
		}
	}
	return v
}

// viewRefusal shows a refusal.
func viewRefusal(rej *governor.Rejection) *adminapi.Refusal {
	said := rejected(rej)
	v := &adminapi.Refusal{
		Status: said.status, Code: said.code, Reason: rej.Reason.String(), Of: "pool " + rej.Pool, Axis: axisOf(rej),
		Limit: rej.Limit, Used: rej.Used, Asked: rej.Asked, RetryAfter: rej.RetryAfter.Seconds(), Kept: rej.Kept, Message: said.message,
	}
	if rej.Own {
		v.Of = rej.Tenant
	}
	return v
}
