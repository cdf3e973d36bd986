package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/run/instance"
)

// insideDoor is a program with the governor inside it: this one. Its CPU time is that of the program, which does nothing
// else meanwhile.
func insideDoor() (door, error) {
	snap, err := measured("http://localhost", alone)
	if err != nil {
		return door{}, err
	}
	in, err := instance.Open(instance.Options{Snapshot: snap, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return door{}, err
	}
	inside := doors.Open(inprocess.New(in.Admission), doors.Options{})
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
