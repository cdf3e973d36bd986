package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Every file in testdata/bad ends with the problems that are to be found in it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		data := testkit.Must(os.ReadFile(file))(t)
		var want []string
		for line := range strings.Lines(string(data)) {
			if text, ok := strings.CutPrefix(line, "# want "); ok {
				want = append(want, strings.TrimSpace(text))
			}
		}
		_, err := Parse(file, data)
		problems, ok := errors.AsType[strictyaml.Problems](err)
		if !ok {
			t.Errorf("%s: got %v, want Problems", file, err)
			continue
		}
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d: %s", p.Line, p.Col, p.What))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
}

func TestProblemNamesItsPlace(t *testing.T) {
	_, err := Parse("mine.yaml", []byte("tenants: 3\n"))
	want := `mine.yaml:1:10: tenants: is a single value; write a list ([a, b])`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestDefaults(t *testing.T) {
	s := testkit.Must(Parse("dir/mine.yaml", []byte("tenants: [{name: a, load: {kind: backlogged, workers: 3}}]")))(t)
	want := Scenario{
		Name: "mine", Duration: 10 * time.Minute, Warmup: time.Minute, Seeds: []uint64{1, 2, 3, 4, 5},
		Pool:     Pool{Pool: terms.Pool{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10_000, TicketWait: 10 * time.Second}},
		Patience: 15 * time.Second,
		Tenants: []Tenant{{
			Name: "a", Weight: 1, Load: Load{Kind: Backlogged, Workers: 3, Start: -1},
			Work: Work{Cost: Dist{Mean: 1000, Sigma: 0.8, Min: 1, Max: 8000}},
		}},
		Source: s.Source,
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The example of docs/scenarios.md is a file, with values for dots.
func TestEveryKeyIsRead(t *testing.T) {
	const file = `
name: all
about: everything there is
duration: 5m
warmup: 30s
seeds: [7]
pool: {tpm: 1000000, rpm: 500, burst: 5s, accounting: production, headroom: 0.01, max_queue: 50, ticket_wait: 0s}
classes:
  - {share: 0.4, median: 100, sigma: 0.5, max: 1000, tokens_per_second: 50, speed_sigma: 0.1, first_token: 100ms..200ms, input: {mean: 500, sigma: 1, max: 9000}}
  - {share: 0.6, median: 20, max: 30}
estimates: learned
refuse: deny
patience: 3s
nodes: {us-east: 1ms, eu-west: 35ms}
tenants:
  - name: org
    weight: 2.5
    floor_tpm: 100
    credit: 2s
    cost: {dist: constant, mean: 40}
    nodes: {us-east: 0.25, eu-west: 0.75}
    teams:
      - {name: x, priority: background, load: {kind: onoff, on: 1s, off: 2s, requests_per_second: 5, start: 0s}}
      - {name: y, nodes: [eu-west], rotate: {period: 1m, swing: 0.5, phase: 0.125}, load: {kind: absent}, service: {mean: 2s, sigma: 0.5}}
  - {name: t, zipf: {count: 12, exponent: 1, weights: [8, 1], load: 0.5}}
events:
  - {at: 10s..20s, every: 30s, tenant: org/y, load: {kind: backlogged, workers: 4}}
  - {at: 100s, cost_factor: 3}
  - {at: 120s, partition: eu-west, for: 5s}
  - {at: 130s, crash: us-east}
`
	s := testkit.Must(Parse("all.yaml", []byte(file)))(t)
	org := s.Tenants[0]
	if got := org.Teams[1].Work; got.Cost.Mean != 40 || got.Service != (Dist{Mean: 2, Sigma: 0.5, Max: 20}) || len(got.Classes) != 0 {
		t.Errorf("a team inherits cost and has its own service: got %+v", got)
	}
	if len(s.Tenants) != 13 || s.Tenants[12].Name != "t-12" || len(s.Tenants[12].Work.Classes) != 2 {
		t.Errorf("twelve tenants t-01 … with the scenario's classes: got %d, last %+v", len(s.Tenants), s.Tenants[len(s.Tenants)-1])
	}
	sum := 0.0
	for _, x := range s.Tenants[1:] {
		sum += x.Load.TokensPerSecond
	}
	if want := 0.5 * 1_000_000 / 60; sum < want-1e-6 || sum > want+1e-6 {
		t.Errorf("all of the zipf ask for %g tokens a second, want %g", sum, want)
	}
	if org.Weight != 2.5 || org.FloorTPM != 100 || org.Credit != 2*time.Second || !org.Teams[0].Background {
		t.Errorf("org is %+v", org)
	}
	x := org.Teams[0].Spread
	y := org.Teams[1].Spread
	if d := cmp.Diff([]Spread{{Parts: []float64{0.25, 0.75}}, {Parts: []float64{0, 1}, Period: time.Minute, Swing: 0.5, Phase: 0.125}}, []Spread{x, y}); d != "" {
		t.Errorf("where teams ask, of which one inherits it (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]*Outage{{Node: 1, For: 5 * time.Second}, {Node: 0, Crash: true}}, []*Outage{s.Events[2].Outage, s.Events[3].Outage}); d != "" {
		t.Errorf("outages (-want +got):\n%s", d)
	}
	if got := s.Events[0]; got.At != (Span{10 * time.Second, 20 * time.Second}) || got.Every != 30*time.Second || got.Load.Workers != 4 {
		t.Errorf("event is %+v", got)
	}
}

// asks reports whether there is a tenant without teams.
func asks(tenants []Tenant) bool {
	return slices.ContainsFunc(tenants, func(t Tenant) bool { return len(t.Teams) == 0 || asks(t.Teams) })
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("*/*/*.yaml")
	more, _ := filepath.Glob("named/*.yaml")
	for _, file := range append(files, more...) {
		data := testkit.Must(os.ReadFile(file))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err != nil {
			if _, ok := errors.AsType[strictyaml.Problems](err); !ok {
				t.Fatalf("%v is no list of problems", err)
			}
			return
		}
		limited := terms.Any(&s.Pool)
		if !asks(s.Tenants) || s.Warmup >= s.Duration || !limited {
			t.Fatalf("accepted a scenario of nothing: %+v", s)
		}
	})
}

func TestNamedScenarios(t *testing.T) {
	for _, name := range Names() {
		s, err := Find(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || s.About == "" {
			t.Errorf("%s: is named %q, about %q", name, s.Name, s.About)
		}
	}
	for _, name := range []string{"s1", "S1", "s2", "s2b", "s3", "s3b", "s4", "s5", "s2-deny", "s4-deny", "s5-deny", "reservation", "durations", "two-axes", "hierarchy", "D1", "d2", "d3", "d4"} {
		if _, err := Find(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"d5": `no scenario "d5"`, "s6": `no scenario "s6"`, "./none.yaml": "no such file"} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if !slices.IsSorted(Names()) {
		t.Error("names are not sorted")
	}
}
