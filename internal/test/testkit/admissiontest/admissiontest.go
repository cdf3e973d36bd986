// Package admissiontest admits calls by a policy, for tests of the doors in front of it.
package admissiontest

import (
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/tenants"
)

// Build returns a Controller for a policy. It fails t if the policy is not valid.
func Build(t testing.TB, cfg tenants.Config, list ...tenants.Tenant) *admission.Controller {
	t.Helper()
	snap, err := tenants.Build(cfg, list)
	if err != nil {
		t.Fatal(err)
	}
	return New(t, snap)
}

// New returns a Controller for a snapshot, with metrics of its own, and a governor of its own after changes to its rules.
func New(t testing.TB, snap *tenants.Snapshot, changes ...func(*governor.Config)) *admission.Controller {
	t.Helper()
	return Counting(t, snap, nil, changes...)
}

// Counting is New with a counter of prompts.
func Counting(t testing.TB, snap *tenants.Snapshot, prompts admission.PromptCounter, changes ...func(*governor.Config)) *admission.Controller {
	t.Helper()
	rules := policy.Governor(snap)
	for _, change := range changes {
		change(&rules)
	}
	gov, err := governor.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return admission.New(admission.Options{Snapshot: snap, Governor: gov, Metrics: telemetry.New(), Prompts: prompts})
}
