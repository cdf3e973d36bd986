package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Whoever waits for the reloader has waited for the watch of the files too.
func TestReloader_Ends(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "llmgov.yaml")
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.WriteFile(config, []byte("upstreams: {u: {base_url: \"http://127.0.0.1:1/v1\"}}\npools: {p: {models: [m], rpm: 100000}}\n"), 0o600))
	must(os.Mkdir(filepath.Join(dir, "tenants"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "tenants", "a.yaml"), fmt.Appendf(nil, "tenants: {acme: {keys: [%q]}}\n", tenants.HashKey("acme")), 0o600))
	snap, err := tenants.Load(config, tenants.Options{})
	must(err)
	for range 50 {
		ctx, end := context.WithCancel(t.Context())
		files, err := tenants.Watch(ctx, config, snap, tenants.Options{})
		must(err)
		r := NewReloader(files, snap, func(*tenants.Snapshot) error { return nil }, telemetry.New(), slog.New(slog.DiscardHandler))
		end()
		must(r.Run(ctx, nil))
		select {
		case _, open := <-files.Events():
			if open {
				t.Error("an event after the end")
			}
		default:
			t.Fatal("the watch goes on")
		}
		if _, err := r.Reload(t.Context()); !errors.Is(err, tenants.ErrWatchEnded) {
			t.Errorf("Reload after the end: %v", err)
		}
	}
}

// When a policy cannot be applied, the one before is told of as in force, and the
// same reason is logged once.
func TestReloader_Refused(t *testing.T) {
	snapshot := func(rpm int64) *tenants.Snapshot {
		cfg := tenants.DefaultConfig()
		cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://u/v1"}}
		p := tenants.DefaultPool("p", "*")
		p.RPM = rpm
		cfg.Pools = []tenants.Pool{p}
		snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "a", Keys: []tenants.Key{{Hash: tenants.HashKey("a")}}}}))(t)
		return snap
	}
	var log strings.Builder
	var fails error
	applied := 0
	first := snapshot(1)
	second := snapshot(2)
	r := NewReloader(nil, first, func(*tenants.Snapshot) error { applied++; return fails }, telemetry.New(), slog.New(slog.NewTextHandler(&log, nil)))
	for i, step := range []struct {
		snap    *tenants.Snapshot
		err     error // of the files
		fails   error // of applying
		hash    string
		applied int
		lines   int
	}{
		{first, nil, nil, first.Hash(), 0, 0},
		{nil, errors.New("bad"), nil, first.Hash(), 0, 1},
		{nil, errors.New("bad"), nil, first.Hash(), 0, 1},
		{nil, errors.New("worse"), nil, first.Hash(), 0, 2},
		{second, nil, errors.New("no"), first.Hash(), 1, 3},
		{second, nil, errors.New("no"), first.Hash(), 2, 3},
		{second, nil, nil, second.Hash(), 3, 4},
		{second, nil, nil, second.Hash(), 3, 4},
		{nil, errors.New("bad"), nil, second.Hash(), 3, 5},
		{second, nil, nil, second.Hash(), 3, 6},
		{nil, tenants.Trial{}, nil, second.Hash(), 3, 6},
	} {
		fails = step.fails
		answer := r.put(step.snap, step.err)
		bad := step.err != nil || step.fails != nil
		st := r.Status()
		if st.Hash != step.hash || st.Success == (bad && step.err != tenants.Trial{}) || (answer.err != nil) != bad || applied != step.applied || strings.Count(log.String(), "\n") != step.lines {
			t.Errorf("step %d: %+v, %+v, applied %d times, logged\n%s", i, st, answer, applied, log.String())
		}
	}
}

// Each setting is read at the start, or whenever it is needed: a new one must be
// decided on.
func TestRestart_EverySettingIsDecided(t *testing.T) {
	live := []string{"default_pool", "keys_file", "policies", "max_tenants", "metrics.tenants", "metrics.idle", "max_body", "body_memory.process", "body_memory.tenant", "timeouts.upstream_header", "timeouts.upstream_answer", "timeouts.stream_idle", "timeouts.drain"}
	decided := slices.Clone(live)
	for _, s := range atStart {
		decided = append(decided, s.key)
	}
	slices.Sort(decided)
	var all []string
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			switch key := f.Tag.Get("koanf"); {
			case key == "-":
			case f.Type.Kind() == reflect.Struct:
				walk(prefix+key+".", f.Type)
			default:
				all = append(all, prefix+key)
			}
		}
	}
	walk("", reflect.TypeFor[tenants.Config]())
	slices.Sort(all)
	if !slices.Equal(all, decided) {
		t.Errorf("the settings are\n%q, decided are\n%q", all, decided)
	}
	text := testkit.Must(os.ReadFile("../../../docs/configuration.md"))(t)
	doc := string(text)
	for i, mark := range []string{"| in force at once |", "| needs a restart |"} {
		_, row, _ := strings.Cut(doc, mark)
		row, _, _ = strings.Cut(row, "\n")
		for _, key := range all {
			if named := strings.Contains(row, "`"+key+"`"); named != (slices.Contains(live, key) == (i == 0)) {
				t.Errorf("docs/configuration.md: %s in the row %q: %v", key, mark, named)
			}
		}
	}
}

// A store is new if it had no data before: it says so, or it grants at once because nobody else is expected.
func TestIsNew(t *testing.T) {
	for _, c := range []struct {
		reply  federation.Reply
		expect int
		want   bool
	}{
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 5000}, 2, true},
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 35_000}, 0, true},
		{federation.Reply{Status: federation.Learning, Epoch: 5000, Now: 5000, Lost: true}, 2, false},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 5300}, 1, true},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 65_000}, 1, false},
		{federation.Reply{Status: federation.Granted, Epoch: 5000, Now: 5300}, 2, false},
		{federation.Reply{Status: federation.Fenced, Epoch: 5000, Now: 5000}, 1, false},
	} {
		if got := isNew(&c.reply, c.expect); got != c.want {
			t.Errorf("%+v, %d expected: %t", c.reply, c.expect, got)
		}
	}
}

// Budgets begin anew if nothing is known of any.
func TestUnknownBudgets(t *testing.T) {
	monthly := func(used int64) governor.BudgetState {
		return governor.BudgetState{Budget: governor.Budget{Unit: governor.UnitMicroUSD, Per: budget.Month, Limit: 100}, Used: used}
	}
	tenant := func(name string, used int64) governor.TenantState {
		return governor.TenantState{Config: governor.Tenant{Name: name}, Budgets: []governor.BudgetState{monthly(used)}}
	}
	pool := governor.PoolState{Config: governor.Pool{Name: "p"}, Budgets: []governor.BudgetState{monthly(0)}}
	for name, c := range map[string]struct {
		state governor.State
		n     int
		first string
	}{
		"none":      {governor.State{}, 0, ""},
		"unknown":   {governor.State{Tenants: []governor.TenantState{tenant("a", 0), tenant("b", 0)}, Pools: []governor.PoolState{pool}}, 3, monthly(0).Name() + " of tenant a"},
		"of a pool": {governor.State{Pools: []governor.PoolState{pool}}, 1, monthly(0).Name() + " of pool p"},
		"known":     {governor.State{Tenants: []governor.TenantState{tenant("a", 0), tenant("b", 1)}, Pools: []governor.PoolState{pool}}, 0, ""},
	} {
		if n, first := unknownBudgets(&c.state); n != c.n || first != c.first {
			t.Errorf("%s: %d, %q", name, n, first)
		}
	}
}
