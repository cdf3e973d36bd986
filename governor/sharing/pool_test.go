package sharing

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// sharedConfig has a group, a tenant with teams, and one like the group.
func sharedConfig() governor.Config {
	return governor.Config{
		Shared: true,
		Pools:  []governor.Pool{{Name: "p", TPM: 60_000, RPM: 600, HeadroomPPM: 10_000, Burst: 10 * time.Second, MaxQueue: 100}},
		Tenants: []governor.Tenant{
			{Name: "x", Weight: 2, Group: "free", GroupWeight: 1},
			{Name: "free", Weight: 3},
			{Name: "acme", Weight: 4},
			{Name: "acme/search", Weight: 1},
			{Name: "acme/search/deep", Weight: 5},
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
		out = append(out, fmt.Sprintf("%s %v %s", c.Path, c.Weight, kind))
	}
	slices.Sort(out)
	return out
}

// TestShared_Report: what is told of a pool, in names that mean the same everywhere.
func TestShared_Report(t *testing.T) {
	g, s := shared(t, sharedConfig())
	r := s.Report(time.Now())
	want := []string{
		"(free) 1 node", "(free)/x 2 leaf", "acme 4 node", "acme/(calls) 1 leaf", "acme/search 1 node",
		"acme/search/(calls) 1 leaf", "acme/search/deep 5 leaf", "free 3 leaf",
	}
	if got := paths(r); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Limits != (federation.Amounts{59_400, 594}) || r.Burst != (federation.Amounts{9900, 99}) {
		t.Errorf("limits %v, burst %v", r.Limits, r.Burst)
	}
	allow(s, 5000)
	l, rej := governor.Refused(g.Acquire(context.Background(), governor.Request{Tenant: "x", Pool: "p", Input: 700}))
	if rej != nil {
		t.Fatal(rej)
	}
	r = s.Report(time.Now())
	sum := federation.Amounts{}
	for _, b := range r.Bookings {
		sum[b.Axis] += b.Cost
	}
	if sum != (federation.Amounts{700, 1}) || r.Spent != (federation.Amounts{700, 1}) || r.Refundable != sum || r.Largest != sum || r.Holding[0].Left != 4300 {
		t.Errorf("booked %v, spent %v, refundable %v, largest %v, left %d", sum, r.Spent, r.Refundable, r.Largest, r.Holding[0].Left)
	}
	var untold []string
	for v, i := reflect.ValueOf(*r), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			untold = append(untold, v.Type().Field(i).Name)
		}
	}
	if want := []string{"Reserve", "Held", "Level"}; !slices.Equal(untold, want) {
		t.Errorf("%v are not told, want %v", untold, want)
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
				cfg.Tenants = append(cfg.Tenants, governor.Tenant{Name: fmt.Sprint("t", i), Weight: 1})
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

// TestSharedSlots_Stakes: a claim tells the weights of tenants that have all they want if the slots here are
// shared by weight, and of those who do not.
func TestSharedSlots_Stakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testkit.Must(governor.New(governor.Config{
			Shared:      true,
			SharedSlots: true,
			Pools:       []governor.Pool{{Name: "p", Concurrency: 8, MaxQueue: 100}},
			Tenants: []governor.Tenant{
				{Name: "calm", Weight: 1, MaxWait: time.Hour},
				{Name: "busy", Weight: 1, MaxWait: time.Hour},
				{Name: "large", Weight: 2, MaxWait: time.Hour},
			},
		}))(t)
		ctx, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		begin := func(tenant string, n int) {
			for range n {
				calls.Go(func() {
					lease, rej := g.Acquire(ctx, governor.Request{Tenant: tenant, Pool: "p", Model: "m"})
					if rej != nil {
						return
					}
					<-ctx.Done()
					lease.Settle(governor.Usage{Output: 1})
				})
			}
			synctest.Wait()
		}
		begin("calm", 1)
		shared := New(g).Limits()
		if len(shared) != 1 {
			t.Fatalf("%d pools share slots", len(shared))
		}
		shared[0].Claims(time.Now())
		shared[0].Apply(time.Now(), time.Now().Add(time.Hour), []parts.Part{{Part: 8}})
		begin("busy", 6)
		begin("large", 8)
		claims, _ := shared[0].Claims(time.Now())
		got := claims[0]
		if got.Used != 8 || got.Calm != 1000 || got.CalmUse != 1 || got.Weight != 3000 {
			t.Errorf("of the slots used a calm weight of 1000 has 1, and a weight of 3000 wants more: %+v", got)
		}
		stop()
		calls.Wait()
	})
}

// TestSharedSlots_WithheldReserve: background calls keep a share of the slots although no more are handed out
// than are reserved, because some are withheld for gateways that are cut off. Before, they had none for good.
func TestSharedSlots_WithheldReserve(t *testing.T) {
	for _, c := range []struct {
		what                         string
		slots, reserve, localPPM     int64
		together, forBackground, run int64
	}{
		{"reserve below what is handed out", 20, 4, 100_000, 18, 14, 1},
		{"reserve as large as what is handed out", 20, 10, 500_000, 10, 5, 1},
		{"reserve larger", 20, 18, 500_000, 10, 5, 1},
		{"one slot is handed out", 2, 1, 500_000, 1, 1, 1},
	} {
		testkit.Virtual(t, c.what, func(t *testing.T) {
			g := testkit.Must(governor.New(governor.Config{
				Shared:      true,
				SharedSlots: true,
				Pools: []governor.Pool{{
					Name: "p", Concurrency: c.slots, InteractiveReserve: c.reserve, MaxQueue: 9,
					OnLoss: governor.LossLocal, LocalPPM: c.localPPM,
				}},
				Tenants: []governor.Tenant{{Name: "batch", Weight: 1, Background: true, MaxWait: time.Hour}},
			}))(t)
			admitted := make(chan governor.Lease, 1)
			go func() {
				lease, _ := g.Acquire(t.Context(), governor.Request{Tenant: "batch", Pool: "p", Model: "m"})
				admitted <- lease
			}()
			synctest.Wait()
			shared := New(g).Limits()[0]
			claims, _ := shared.Claims(time.Now())
			all := claims[0]
			background := claims[1]
			if all.Limit != c.together || background.Limit != c.forBackground || background.Need != c.run {
				t.Fatalf("claims %+v, and of them for background calls %+v", all, background)
			}
			shared.Apply(time.Now(), time.Now().Add(time.Hour), []parts.Part{{Part: all.Want}, {Part: background.Want}})
			(<-admitted).Settle(governor.Usage{Output: 1})
		})
	}
}
