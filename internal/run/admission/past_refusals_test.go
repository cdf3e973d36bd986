package admission

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// TestPastRefusals_Policies: a refusal keeps the policy that it was decided by in memory, so those of the last few policies are
// kept alone. A snapshot that differs in its keys only is of the same policy.
func TestPastRefusals_Policies(t *testing.T) {
	ctl := newController(t, before)
	apply := func(guest int) {
		t.Helper()
		r := rules{tenants: map[string]string{"acme": "m", fmt.Sprint("guest", guest): "m"}, pools: before.pools}
		if err := ctl.Apply(r.snapshot(t)); err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(id string) {
		t.Helper()
		c := new(Call)
		c.Begin(t.Context(), ctl, ctl.Policy(), id)
		f := c.Enter(Caller{Key: "acme"}, ask.Ask{Model: "unknown"})
		if f == nil {
			t.Fatal("the call was admitted")
		}
		c.Refused(f)
		c.Close()
	}
	const policies = 30
	for n := range policies {
		apply(n)
		refuse(fmt.Sprint("call", n))
	}
	for range policies {
		apply(policies - 1)
		refuse("again")
	}
	kept := 0
	for n := range policies {
		found := ctl.PastRefusals(fmt.Sprint("call", n))
		kept += len(found)
		if late := n >= policies-8; late != (len(found) == 1) {
			t.Errorf("refusals under policy %d of %d: %d", n, policies, len(found))
		}
	}
	snapshots := map[any]bool{}
	for n := range policies {
		for _, p := range ctl.PastRefusals(fmt.Sprint("call", n)) {
			snapshots[p.Snapshot] = true
		}
	}
	for _, p := range ctl.PastRefusals("again") {
		snapshots[p.Snapshot] = true
	}
	if kept != 8 || len(snapshots) != 8 {
		t.Errorf("%d refusals are kept, and %d snapshots by them", kept, len(snapshots))
	}
}
