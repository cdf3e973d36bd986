package sharing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// sharedConfig has a group, a tenant with teams, and one like the group.
func sharedConfig() governor.Config {
	return governor.Config{
		Shared: true,
		Pools:  []governor.Pool{{Name: "p", TPM: 60_000, RPM: 600, HeadroomPPM: 10_000, Burst: 10 * time.Second, MaxQueue: 100}},
		Tenants: []governor.Tenant{
			{Name: "x", Weight: 2000, Group: "free", GroupWeight: 1000},
			{Name: "free", Weight: 3000},
			{Name: "acme", Weight: 4000},
			{Name: "acme/search", Weight: 1000},
			{Name: "acme/search/deep", Weight: 5000},
		},
	}
}

// shared is a governor, and the speaker for its pool.
func shared(t *testing.T, cfg governor.Config) (*governor.Governor, *Pool) {
	t.Helper()
	g := testkit.Must(governor.New(cfg))(t)
	return g, New(g).Pools()[0].(*Pool)
}

func paths(r *federation.Report) (out []string) {
	for i, c := range r.Tree {
		kind := "node"
		if c.Leaf {
			kind = "leaf"
		}
		if c.Parent >= i {
			kind = "BEFORE ITS PARENT"
		}
		out = append(out, fmt.Sprintf("%s %d %s", c.Path, c.Weight, kind))
	}
	slices.Sort(out)
	return out
}

// TestShared_Report: what is told of a pool, in names that mean the same everywhere.
func TestShared_Report(t *testing.T) {
	g, s := shared(t, sharedConfig())
	r := s.Report(time.Now())
	want := []string{
		"(free) 1000 node", "(free)/x 2000 leaf", "acme 4000 node", "acme/(calls) 1000 leaf", "acme/search 1000 node",
		"acme/search/(calls) 1000 leaf", "acme/search/deep 5000 leaf", "free 3000 leaf",
	}
	if got := paths(r); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Limits != (escrow.Cost{59_400, 594}) || r.Burst != (escrow.Cost{9900, 99}) {
		t.Errorf("limits %v, burst %v", r.Limits, r.Burst)
	}
	allow(s, 5000)
	l, rej := governor.Rejected(g.Acquire(context.Background(), governor.Request{Tenant: "x", Pool: "p", Input: 700}))
	if rej != nil {
		t.Fatal(rej)
	}
	r = s.Report(time.Now())
	sum := escrow.Cost{}
	for _, b := range r.Bookings {
		sum[b.Axis] += b.Cost
	}
	if sum != (escrow.Cost{700, 1}) || r.Spent != (escrow.Cost{700, 1}) || r.Largest != (escrow.Cost{700, 1}) || r.Holding[0].Left != 4300 {
		t.Errorf("booked %v, spent %v, largest %v, left %d", sum, r.Spent, r.Largest, r.Holding[0].Left)
	}
	for _, c := range r.Tree {
		if c.Leaf && (c.Demand.Served+c.Demand.Waiting > 0) != (c.Path == "(free)/x") {
			t.Errorf("%s asks for %+v", c.Path, c.Demand)
		}
	}
	l.Settle(governor.Usage{Input: 700})
}

// allow puts so much in force for a second.
func allow(s *Pool, tokens int64) {
	now := time.Now()
	r := s.Report(now)
	var out []federation.Command
	for k, level := range []int64{tokens, 100} {
		out = append(out, federation.Allow{Axis: escrow.Axis(k), Allowance: escrow.Allowance{
			Since: now, Until: now.Add(time.Second), Level: level, Spent: r.Spent[k],
		}})
	}
	s.Apply(now, out)
}

// TestConstants: the governor knows no federation, and what it says of it is true.
func TestConstants(t *testing.T) {
	if governor.MaxShared != federation.MaxLimit {
		t.Errorf("the governor shares limits up to %d, the protocol up to %d", governor.MaxShared, federation.MaxLimit)
	}
	if ttl := federation.DefaultRules().TTL; governor.GrantLasts != ttl {
		t.Errorf("the governor takes a grant to last for %v, and it lasts for %v", governor.GrantLasts, ttl)
	}
}

// BenchmarkReport: how long the pool is locked for a report of many tenants, and how long
// the rest of it takes.
func BenchmarkReport(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := governor.Config{Shared: true, Pools: []governor.Pool{{Name: "p", TPM: 1e9, Burst: 10 * time.Second, MaxQueue: 100}}}
			for i := range n {
				cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint("t", i), Weight: 1000})
			}
			g := testkit.Must(governor.New(cfg))(b)
			s := New(g).Pools()[0].(*Pool)
			allow(s, 1e8)
			for i := range n {
				l, rej := g.Acquire(context.Background(), governor.Request{Tenant: fmt.Sprint("t", i), Pool: "p", Input: 10})
				if rej == nil {
					l.Settle(governor.Usage{Input: 10})
				}
			}
			total := time.Duration(0)
			s.Report(time.Now())
			for b.Loop() {
				began := time.Now()
				s.shared.Demand(began)
				total += time.Since(began)
				s.Report(began)
			}
			b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns-locked/op")
		})
	}
}
