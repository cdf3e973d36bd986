package instance

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/internal/lib/rounds"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/tenants"
)

// warnEvery is how long it takes at most until somebody is told that a part of a budget is used.
const warnEvery = 5 * time.Second

// warn adds an event for each part of a budget that is used, if its policy wants to be told, until ctx ends.
func (in *Instance) warn(ctx context.Context) error {
	var warnings events.Warnings
	var wanted map[string]bool
	var of *tenants.Snapshot
	look := func() {
		if now := in.Admission.Policy().Snapshot; now != of {
			of = now
			wanted = warned(of)
		}
		if wanted != nil {
			warnings.Look(time.Now(), in.Governor.State(func(tenant string) bool { return wanted[tenant] }), in.Events)
		}
	}
	look()
	rounds.Every(ctx, warnEvery, look)
	return nil
}

// warned are the tenants with budgets of which somebody wants to be told; nil if there is no such budget, of a pool's neither.
func warned(s *tenants.Snapshot) (names map[string]bool) {
	wants := func(list []tenants.Budget, name string) {
		for _, b := range list {
			if b.WarnAt[0] == 0 {
				continue
			}
			if names == nil {
				names = map[string]bool{}
			}
			if name != "" {
				names[name] = true
			}
		}
	}
	for _, t := range s.Tenants() {
		wants(t.Budgets, t.Name)
	}
	for _, p := range s.Pools() {
		wants(p.Budgets, "")
	}
	return names
}
