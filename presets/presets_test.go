package presets_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/presets"
	"github.com/llmgov/llmgov/tenants"
)

const (
	config = "upstreams: {openai: {base_url: https://api.openai.com/v1}}\npools: {main: {models: [m], tpm: 1000000}}\n"
	key    = "sha256:%064x"
)

func load(t *testing.T, config string, policies ...string) *tenants.Snapshot {
	t.Helper()
	fsys := fstest.MapFS{"llmgov.yaml": {Data: []byte(config)}}
	for i, text := range policies {
		fsys[fmt.Sprintf("tenants/%d.yaml", i)] = &fstest.MapFile{Data: []byte(text)}
	}
	return testkit.Must(tenants.LoadFS(fsys, "llmgov.yaml", tenants.Options{Env: []string{"OPENAI_API_KEY=sk-x"}}))(t)
}

// The numbers of the three configs.
func TestGovernor(t *testing.T) {
	type numbers struct {
		TPM, RPM, Slots, Reserve int64
		Law                      tenants.Law
		Least                    int64
		Patience                 time.Duration
	}
	for name, want := range map[string]numbers{
		"quiet":      {0, 10, 1, 0, 0, 0, 30 * time.Second},
		"balanced":   {100_000, 60, 5, 2, 0, 0, time.Minute},
		"aggressive": {500_000, 300, 20, 5, tenants.Gradient, 8, 2 * time.Minute},
	} {
		p, ok := presets.Find(name)
		if !ok || p.Kind != "governor" {
			t.Fatalf("%s: found %v, kind %q", name, ok, p.Kind)
		}
		s := load(t, p.YAML, fmt.Sprintf("tenants: {a: {keys: ['"+key+"']}}\n", 1))
		pool, ok := s.PoolOf("any-model")
		if !ok {
			t.Fatalf("%s: no pool for any model", name)
		}
		time := s.Config().Timeouts
		got := numbers{pool.TPM, pool.RPM, pool.Concurrency, pool.InteractiveReserve, pool.Adaptive, pool.MinConcurrency, time.StreamIdle}
		if diff := cmp.Diff(want, got); diff != "" || time.UpstreamHeader != time.StreamIdle {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, time)
		}
	}
}

// Each tier of each pack can be taken, beside every config.
func TestTiers(t *testing.T) {
	packs := 0
	for _, p := range presets.All() {
		if p.Kind != "tiers" {
			continue
		}
		packs++
		var policy strings.Builder
		policy.WriteString("tenants:\n")
		names := tierNames(p.YAML)
		if len(names) < 2 {
			t.Errorf("%s has the tiers %q", p.Name, names)
		}
		for i, tier := range names {
			fmt.Fprintf(&policy, "  t%d: {tier: %s, keys: ['"+key+"']}\n", i, tier, i+1)
		}
		for _, cfg := range presets.All() {
			text := config
			if cfg.Kind == "governor" {
				text = cfg.YAML
			}
			s := load(t, text, p.YAML, policy.String())
			if len(s.Tenants()) != len(names) {
				t.Errorf("%s: %d tenants of %d tiers", p.Name, len(s.Tenants()), len(names))
			}
		}
	}
	if packs != 3 {
		t.Errorf("%d packs of tiers, want 3", packs)
	}
}

// tierNames are the keys below tiers.
func tierNames(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(line, "  ") && line[2] != ' ' && rest != "" {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// No file is forgotten, and each begins with what it is for.
func TestAll(t *testing.T) {
	onDisk := testkit.Must(fs.Glob(os.DirFS("."), "*/*.yaml"))(t)
	all := presets.All()
	if len(all) != len(onDisk) {
		t.Errorf("%d are listed and %d on disk: %q", len(all), len(onDisk), onDisk)
	}
	for _, p := range all {
		if !strings.HasPrefix(p.YAML, "# "+p.About+"\n") || !strings.HasSuffix(p.About, ".") || len(p.About) > 90 {
			t.Errorf("%s begins with %q", p.Name, p.About)
		}
	}
	if _, ok := presets.Find("loud"); ok {
		t.Error("found a preset that is not there")
	}
}
