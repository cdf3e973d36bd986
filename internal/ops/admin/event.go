package admin

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
)

// viewEvent shows an event. refusal explains refusals.
func viewEvent(e *events.Event, refusal func(string, *governor.Refusal) *adminapi.Refusal) *adminapi.Event {
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
	if e.Warning != nil {
		v.Warning = &adminapi.BudgetWarning{Percent: e.Warning.Percent, Budget: budgetViews([]governor.BudgetState{e.Warning.BudgetState})[0]}
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
			v.Refusal = refusal(req.Tenant, e.Refused)
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
				ITPM:      c.ITPM,
				OTPM:      c.OTPM,
				Until:     c.Until.UTC(),
			})
		}
	}
	return v
}
