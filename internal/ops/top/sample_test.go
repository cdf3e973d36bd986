package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// site is a gateway as its admin API shows it: what it answers is what the gateway's own types
// make of it.
type site struct {
	adminapi.Snapshot
	shares []adminapi.PoolFairness // all, where the snapshot has not
	leases []adminapi.Lease
	down   error
	asked  []string // paths
}

func (s *site) ask(_ context.Context, path string, into any) error {
	s.asked = append(s.asked, path)
	if s.down != nil {
		return s.down
	}
	var v any
	switch path, _, _ := strings.Cut(path, "?"); path {
	case "/api/v1/snapshot":
		v = s.Snapshot
	case "/api/v1/fairness":
		v = adminapi.FairnessList{Pools: s.shares}
	case "/api/v1/leases":
		v = adminapi.LeaseList{Leases: s.leases}
	case "/api/v1/tenants":
		v = adminapi.TenantList{Tenants: []adminapi.Tenant{{Members: &adminapi.Members{Total: 1234, Heaviest: []adminapi.Member{
			{Name: "ann@example.com", Tokens: 41_000, Running: 3, Budgets: []adminapi.Budget{{Name: "tokens per life", Limit: 5e6, Used: 4e6}}}, {Tokens: 7},
		}}}}}
	default:
		return errors.New("no such path: " + path)
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// sample has three pools: one that is full, and shared with other gateways; one whose upstream
// has asked for a pause, with the store gone; and one that idles.
func sample() *site {
	held := noon.Add(8 * time.Second)
	shares := []adminapi.Share{
		{Name: "acme", Weight: 4, Guaranteed: 0.571, Entitled: 0.48, Received: 0.47, Demand: 0.6, Running: 9, Queued: 12, OldestWait: 3.42, Debt: 1024, Lent: 1_188_000},
		{Name: "acme/search", Weight: 2, Guaranteed: 0.286, Entitled: 0.21, Received: 0.244, Demand: 0.3, Running: 3, Borrowed: 45_210},
		{Name: "corp-with-a-very-long-name/research-and-development", Weight: 0.5, Guaranteed: 0.143, Entitled: 0.004, Received: 0.004, Demand: 0.004},
	}
	leases := []adminapi.Lease{
		{ID: "req_0001", Tenant: "acme", Pool: "gpt-4o", State: "streaming", AgeSeconds: 19.2, HeldTokens: 1400, UsedTokens: 1120, Stream: true},
		{ID: "req_0002", Tenant: "acme", Pool: "gpt-4o", State: "waiting", AgeSeconds: 3.42, HeldTokens: 4096},
		{ID: "req_0003", Tenant: "acme/search", Pool: "gpt-4o", State: "running", AgeSeconds: 0.4, HeldTokens: 512},
	}
	s := &site{leases: leases}
	s.Snapshot = adminapi.Snapshot{
		Version: "v1", Node: "gw-1", Region: "eu", PolicyHash: "5e5bd3f0aa", Tenants: 3,
		Policy: &adminapi.PolicyStatus{Success: true},
		Pools: []adminapi.Pool{
			{
				Name: "gpt-4o", Upstream: "openai, azure", Models: []string{"gpt-4o", "gpt-4o-2024-*"}, Accounting: "production",
				Limits:   []adminapi.Limit{{Axis: "tokens", Limit: 297_000, Used: 289_411}, {Axis: "requests", Limit: 4950, Used: 1203}, {Axis: "concurrency", Limit: 32, Used: 12}},
				Adaptive: &adminapi.Adaptive{Law: "gradient", Min: 4, Max: 256}, Running: 12, Waiting: 12, OldestWait: 3.42, RateRatio: 0.5, BurstSeconds: 5,
				Upstreams: []adminapi.Upstream{{Name: "openai", Weight: 1, State: "up"}, {Name: "azure", Weight: 1, State: "busy", Until: &held}},
				Budgets:   []adminapi.Budget{{Name: "usd per day", Unit: "usd", Per: "day", Limit: 500, Used: 123.4, ResetsAt: noon.Add(12 * time.Hour)}},
				Fairness:  adminapi.Fairness{Jain: 0.996, Deviation: 0.034, Unused: 120, TenantsTotal: 3, Tenants: shares},
				Sharing: &adminapi.Sharing{
					Status: "ok", Epoch: 3, Beats: 900, AnsweredSeconds: 0.3,
					Nodes: []adminapi.SharingNode{
						{Name: "gw-1", Region: "eu", Live: true, SeenSeconds: 0.2, Tokens: 150_000, Requests: 700, WaitingTokens: 21_000, GrantTPM: 160_000, GrantRPM: 2500},
						{Name: "gw-2", Region: "us", SeenSeconds: 41, Tokens: 139_411, Requests: 503},
					},
				},
				LeasesTotal: 3, Leases: leases,
			},
			{
				Name: "claude", Upstream: "anthropic", Models: []string{"claude-*"}, Accounting: "settle", HeldUntil: &held,
				Limits:    []adminapi.Limit{{Axis: "tokens", Limit: 1_200_000, Used: 84_000}},
				Upstreams: []adminapi.Upstream{{Name: "anthropic", State: "busy", Until: &held}},
				Fairness:  adminapi.Fairness{Jain: 0.81, Deviation: 0.3, TenantsTotal: 1, Tenants: []adminapi.Share{{Name: "acme", Weight: 4, Guaranteed: 1, Entitled: 0.07, Received: 0.07, Demand: 0.07}}},
				Sharing:   &adminapi.Sharing{Status: "ok", Degraded: "fail_local", Error: "the store does not answer", Epoch: 3, AnsweredSeconds: 95},
			},
			{Name: "embeddings", Upstream: "openai", Models: []string{"text-embedding-3-*"}, Limits: []adminapi.Limit{{Axis: "requests", Limit: 500}}, RateRatio: 1, Fairness: adminapi.Fairness{Jain: 1}},
		},
	}
	return s
}

// withServers adds model servers that tell their load, behind two of the pools.
func (s *site) withServers() {
	full := &s.Pools[0]
	full.Adaptive.Room = 40
	full.Upstreams[0].Engine = &adminapi.Engine{Running: 12, Waiting: 3, KVUse: 0.874, Fresh: true}
	full.Upstreams[1].Engine = &adminapi.Engine{Running: 4, Error: "its status is 503"}
	s.Pools[1].Upstreams[0].Engine = &adminapi.Engine{Running: 2, KVUse: 0.5, Fresh: true}
}

// crowd is one pool with so many tenants, of which the snapshot has a hundred.
func crowd(n int) *site {
	s := &site{Snapshot: adminapi.Snapshot{Node: "gw-1", Region: "eu", Tenants: n}}
	f := adminapi.Fairness{Jain: 1, TenantsTotal: n}
	for i := range n {
		part := float64(n-i) / float64(n)
		f.Tenants = append(f.Tenants, adminapi.Share{Name: fmt.Sprintf("tenant-%05d", i), Weight: 1, Entitled: part, Received: part, Demand: part, Queued: i % 7})
	}
	s.shares = []adminapi.PoolFairness{{Name: "big", Fairness: f}}
	f.Tenants = f.Tenants[:min(n, 100)]
	s.Pools = []adminapi.Pool{{Name: "big", RateRatio: 1, Fairness: f, Limits: []adminapi.Limit{{Axis: "tokens", Limit: 1000}}}}
	return s
}

// bench is a model in front of a site, without a terminal.
type bench struct {
	*Model
	*site
	now time.Time
}

func newBench(s *site, width, height int) *bench {
	b := &bench{site: s, now: noon}
	b.Model = New(context.Background(), Options{Ask: s.ask, Where: "http://127.0.0.1:9090", Glyphs: Unicode, Now: func() time.Time { return b.now }})
	b.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return b
}

// second is what happens in one: a look, if there is one to take, and what comes of it.
func (b *bench) second() {
	b.now = b.now.Add(time.Second)
	if b.paused {
		return
	}
	b.Update(b.poll()())
}

// keys presses keys, by their names or as they are, and sees what comes of each.
func (b *bench) keys(keys ...string) *bench {
	for _, k := range keys {
		b.Update(key(k))
		_ = b.frame()
	}
	return b
}

var named = map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown}

func key(k string) tea.KeyPressMsg {
	if code, ok := named[k]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// picture is the frame without escape codes.
func (b *bench) picture(t *testing.T) string {
	t.Helper()
	return ansi.Strip(b.frame())
}

// TestServers: of the servers behind a pool those are told of first that cannot be read, then those with the most to do; a list of pools
// tells of the first.
func TestServers(t *testing.T) {
	stale := adminapi.Upstream{Name: "stale", Engine: &adminapi.Engine{Running: 7, Waiting: 9, Error: "no answer\x1b[2J"}}
	full := adminapi.Upstream{Name: "full", Engine: &adminapi.Engine{Running: 1200, Waiting: 3, KVUse: 0.99, Fresh: true}}
	busy := adminapi.Upstream{Name: "busy", Engine: &adminapi.Engine{Running: 8, KVUse: 0.4, Fresh: true}}
	mute := adminapi.Upstream{Name: "mute", Engine: &adminapi.Engine{Running: 2, Fresh: true}}
	none := adminapi.Upstream{Name: "none"}
	for _, c := range []struct {
		list  []adminapi.Upstream
		brief string
		lines []string
	}{
		{[]adminapi.Upstream{none}, "-", nil},
		{[]adminapi.Upstream{mute}, "2 run", []string{"server mute: 2 run, 0 wait"}},
		{[]adminapi.Upstream{none, mute, busy}, "KV 40%", []string{"server busy: 8 run, 0 wait, KV cache 40%", "server mute: 2 run, 0 wait"}},
		{[]adminapi.Upstream{mute, busy, full, stale}, "stale", []string{
			"server stale: stale, its metrics are not read: no answer?[2J", "server full: 1,200 run, 3 wait, KV cache 99%",
			"server busy: 8 run, 0 wait, KV cache 40%", "and 1 more with less to do",
		}},
		{[]adminapi.Upstream{full, busy}, "3 wait", []string{"server full: 1,200 run, 3 wait, KV cache 99%", "server busy: 8 run, 0 wait, KV cache 40%"}},
	} {
		p := &adminapi.Pool{Upstreams: slices.Clone(c.list)}
		if got := serverOf(p); got != c.brief {
			t.Errorf("in a list it is %q, want %q", got, c.brief)
		}
		testkit.Same(t, c.lines, serverLines(p, &pen{width: 80}), "lines")
		testkit.Same(t, c.list, p.Upstreams, "the upstreams were changed")
	}
}
