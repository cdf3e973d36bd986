package main

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"
)

// newController is what admits calls, by a policy with a limit on every axis.
func newController(upstream string) (*admission.Controller, error) {
	snap, err := measured(upstream, alone)
	if err != nil {
		return nil, err
	}
	gov, err := governor.New(policy.Governor(snap))
	if err != nil {
		return nil, err
	}
	metrics := telemetry.New()
	metrics.Watch(gov.State, snap.Hash())
	return admission.New(admission.Options{Snapshot: snap, Governor: gov, Metrics: metrics}), nil
}

// insideDoor is a program with the governor inside it: this one. Its CPU time is that of the program, which does nothing
// else meanwhile.
func insideDoor() (door, error) {
	ctl, err := newController("http://localhost")
	if err != nil {
		return door{}, err
	}
	inside := doors.Open(inprocess.New(ctl), doors.Options{})
	return door{
		title: "Do, in a Go program",
		govern: func(ctx context.Context, tenant int) (time.Duration, error) {
			began := time.Now()
			err := inside.Do(ctx, client.Request{Tenant: tenantName(tenant), Model: "gpt-4o", InputTokens: 100, MaxOutput: 400}, answered)
			return time.Since(began), err
		},
		cpu: func() (time.Duration, error) { return cpuTime(), nil },
	}, nil
}
