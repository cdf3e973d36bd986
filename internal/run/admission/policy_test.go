package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// rules are a policy: tenants with the models that they may use, and pools with those that they
// serve. A tenant's name is its key.
type rules struct {
	tenants, pools map[string]string
}

var before = rules{
	tenants: map[string]string{"acme": "m", "other": "m"},
	pools:   map[string]string{"p": "m"},
}

func (r rules) snapshot(t testing.TB) *tenants.Snapshot {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://u/v1"}}
	for name, models := range r.pools {
		p := tenants.DefaultPool(name)
		p.Concurrency = 2
		p.Models = strings.Fields(models)
		cfg.Pools = append(cfg.Pools, p)
	}
	var list []tenants.Tenant
	for name, models := range r.tenants {
		list = append(list, tenants.Tenant{
			Name: name, Tier: "t", Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}, Models: strings.Fields(models), MaxWait: 5 * time.Second, Limits: terms.Limits{TPM: 10_000},
			Budgets: []tenants.Budget{{Unit: tenants.Tokens, Limit: 1_000_000, Per: tenants.Day}},
		})
	}
	snap := testkit.Must(tenants.Build(cfg, list))(t)
	return snap
}

func newController(t testing.TB, r rules) *Controller {
	t.Helper()
	return newControllerOf(t, r.snapshot(t))
}

func newControllerOf(t testing.TB, snap *tenants.Snapshot) *Controller {
	t.Helper()
	gov := testkit.Must(governor.New(policy.Governor(snap)))(t)
	return New(Options{Snapshot: snap, Governor: gov, Metrics: telemetry.New()})
}

// Everything that calls have taught lives on, by the names of tenants and pools, and so do the lessons of all.
func TestPolicy_KeepsLessons(t *testing.T) {
	ctl := newController(t, rules{tenants: map[string]string{"acme": "m", "other": "m", "third": "m"}, pools: before.pools})
	was := ctl.Policy()
	page := tokens.Size{tokens.Text: 1000 * tokens.Scale}
	for i := range 3 {
		was.Estimates(i).Prompts.Observe(time.Now(), "m", page, 700)
		was.Estimates(i).told.Prompts.Observe(time.Now(), "m", page, 3000)
	}
	testkit.OK(t, ctl.Apply(rules{tenants: map[string]string{"aaron": "m", "acme": "m", "other": "m", "third": "m"}, pools: map[string]string{"a": "x", "p": "m"}}.snapshot(t)))
	is := ctl.Policy()
	if is == was || is.Estimates(1) != was.Estimates(0) {
		t.Error("estimates are others")
	}
	if n := is.Estimates(0).Prompts.Estimate("m", page); n != 700 {
		t.Errorf("who is new estimates %d, and all have taught 700", n)
	}
	if is.Pools[1].Failures != was.Pools[0].Failures || is.Pools[0].Failures == was.Pools[0].Failures {
		t.Error("the pool's failures are others")
	}
	if is.Account(1, 1) != was.Account(0, 0) {
		t.Error("the account is another one")
	}
	next := newController(t, before) // of another process
	next.Recall(ctl.Learned())
	if e := next.Policy().Estimates(0); e.Prompts.Estimate("m", page) != 700 || e.Answers.Estimate("m", page) != 1000 || e.told.Prompts.Estimate("m", page) != 3000 {
		t.Errorf("the next process estimates %d and %d", e.Prompts.Estimate("m", page), e.told.Prompts.Estimate("m", page))
	}
}

// Followers prepare for the policy in force and for each next one; none of them installs a policy for
// which another cannot prepare.
func TestController_Followers(t *testing.T) {
	ctl := newController(t, before)
	installed := map[string]int{}
	var broken error
	for _, name := range []string{"first", "second"} {
		testkit.OK(t, ctl.Follow(func(*Policy) (func(), error) {
			if name == "second" && broken != nil {
				return nil, broken
			}
			return func() { installed[name]++ }, nil
		}))
	}
	broken = errors.New("no such certificate")
	if err := ctl.Apply(renamed.snapshot(t)); !errors.Is(err, broken) {
		t.Errorf("applied: %v", err)
	}
	if err := ctl.Follow(func(*Policy) (func(), error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a follower that cannot prepare follows: %v", err)
	}
	broken = nil
	if err := ctl.Apply(renamed.snapshot(t)); err != nil {
		t.Error(err)
	}
	if installed["first"] != 2 || installed["second"] != 2 {
		t.Errorf("installed %v, each twice is right", installed)
	}
}

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
