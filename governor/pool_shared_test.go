package governor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// sharedConfig has a group, a tenant with teams, and one like the group.
func sharedConfig() Config {
	return Config{
		Shared: true,
		Pools:  []Pool{{Name: "p", TPM: 60_000, RPM: 600, HeadroomPPM: 10_000, Burst: 10 * time.Second, MaxQueue: 100}},
		Tenants: []Tenant{
			{Name: "x", Weight: 2, Group: "free", GroupWeight: 1},
			{Name: "free", Weight: 3},
			{Name: "acme", Weight: 4},
			{Name: "acme/search", Weight: 1},
			{Name: "acme/search/deep", Weight: 5},
		},
	}
}

func shared(t *testing.T, cfg Config) (*Governor, *SharedPool) {
	t.Helper()
	g := testkit.Must(New(cfg))(t)
	return g, g.SharedPools()[0]
}

// allow puts so much in force for a second.
func allow(s *SharedPool, tokens int64) {
	now := time.Now()
	d, _ := s.Demand(now)
	var grant PoolGrant
	for k, level := range []int64{tokens, 100} {
		grant.Allowances[k] = &escrow.Allowance{Since: now, Until: now.Add(time.Second), Level: level, Spent: d.Spent[k]}
	}
	s.Allow(now, grant)
}

// tokensOnly is an allowance of tokens.
func tokensOnly(a escrow.Allowance) [2]*escrow.Allowance {
	return [2]*escrow.Allowance{escrow.Tokens: &a}
}

// demanded is what a pool demands now.
func demanded(s *SharedPool) PoolDemand {
	d, _ := s.Demand(time.Now())
	return d
}

// TestShared_LimitsComeAmongShares: a grant of many shares gives the lock back among them. Where other limits come into force meanwhile, its allowances
// are of limits that are gone.
func TestShared_LimitsComeAmongShares(t *testing.T) {
	clock := &ticking{late: late{now: time.Unix(1_000_000, 0)}}
	cfg := many(200, 1, 0)
	cfg.Shared = true
	cfg.Clock = clock
	_, s := shared(t, cfg)
	d, _ := s.Demand(clock.now)
	var grant PoolGrant
	for i, n := range d.Tree {
		grant.Shares = append(grant.Shares, NodeShare{n.ID, int64(500_000 + i)})
	}
	grant.Allowances = tokensOnly(escrow.Allowance{Since: clock.now, Until: clock.now.Add(time.Minute), Level: 1000, Spent: d.Spent[escrow.Tokens]})
	p := s.find()
	taken := 0
	clock.read = func() {
		if taken++; taken == 2 { // as a configuration does
			p.rates.era++
		}
	}
	s.Allow(clock.now, grant)
	if taken < 2 {
		t.Fatal("the lock was not given back among the shares")
	}
	if !p.rates.allowed[0].IsZero() {
		t.Error("an allowance of limits that are gone is in force")
	}
}

// TestShared_Apply: shares stay with their places in the tree over changes of the
// configuration, also where these come between a report and what follows from it.
func TestShared_Apply(t *testing.T) {
	cfg := sharedConfig()
	g, s := shared(t, cfg)
	ppm := func(path string) int64 {
		p := s.find()
		return p.tree.shared.nodes[p.tree.shared.index[path]].ppm
	}
	id := func(d PoolDemand, path string) escrow.NodeID {
		return d.Tree[slices.IndexFunc(d.Tree, func(n PoolNode) bool { return n.Path == path })].ID
	}
	d := demanded(s)
	s.Allow(time.Now(), PoolGrant{Shares: []NodeShare{{id(d, "free"), 250_000}, {id(d, "acme/search/deep"), 40_000}}})

	// search has its place taken by another node: deep leaves it, so it is a leaf now.
	cfg.Tenants = slices.DeleteFunc(sharedConfig().Tenants, func(t Tenant) bool { return t.Name == "acme/search/deep" })
	d = demanded(s)
	testkit.OK(t, g.Apply(cfg))
	s.Allow(time.Now(), PoolGrant{
		Shares: []NodeShare{
			{id(d, "acme/search/deep"), 70_000}, // is gone
			{id(d, "acme/search"), 90_000},
		},
		Allowances: tokensOnly(escrow.Allowance{Since: time.Now(), Until: time.Now().Add(time.Minute), Level: 50}),
	})
	if ppm("free") != 250_000 || ppm("acme/search") != 90_000 || ppm("acme") != wholeNode {
		t.Errorf("free %d, acme/search %d, acme %d", ppm("free"), ppm("acme/search"), ppm("acme"))
	}
	if d := demanded(s); d.Left[0] != 50 {
		t.Errorf("the limits are as they were, and of the allowance %d is left", d.Left[0])
	}

	// With other limits the books may begin anew: what was reported before counts from elsewhere.
	demanded(s)
	cfg.Pools[0].TPM *= 2
	testkit.OK(t, g.Apply(cfg))
	s.Allow(time.Now(), PoolGrant{Allowances: tokensOnly(escrow.Allowance{Since: time.Now(), Until: time.Now().Add(time.Minute), Level: 999})})
	if d := demanded(s); d.Left[0] != 50 {
		t.Errorf("an allowance for other limits is in force: %+v", d.Allowed[0])
	}

	testkit.OK(t, g.Apply(sharedConfig()))
	if got := ppm("acme/search/deep"); got != wholeNode {
		t.Errorf("who comes back has a share of %d", got)
	}
	if err := g.table.pools["p"].escrow.Check(); err != nil {
		t.Error(err)
	}
}

// TestShared_Past: a shared pool's minute is remembered by who shares it out; its
// tenants' own minutes are not.
func TestShared_Past(t *testing.T) {
	past := record.NewPast(time.Now(), nil)
	ago := time.Now().Add(-time.Second)
	took := record.Charge{Pool: escrow.Cost{500, 1}, Own: limits.Cost{limits.Requests: 1, limits.Tokens: 500}}
	past.Read(record.Record{Kind: record.Ended, Call: 1, Tenant: "free", Pool: "p", Began: ago, Ended: ago, Booked: took, Took: took})
	cfg := sharedConfig()
	cfg.Past = past
	cfg.Tenants[1].TPM = 1000
	g, s := shared(t, cfg)
	if d := demanded(s); len(d.Bookings) > 0 {
		t.Errorf("it tells again of %v", d.Bookings)
	}
	if st := g.Standing("free", ""); st.Tokens.Remaining != 500 {
		t.Errorf("of its own 1000 the tenant has %d left", st.Tokens.Remaining)
	}
}

// TestShared_Cut: of what is granted only the part is handed out that the upstreams which
// are left have, so that others can have the rest.
func TestShared_Cut(t *testing.T) {
	g, s := shared(t, sharedConfig())
	now := time.Now()
	g.Throttle("p", []Cut{{Part: Whole / 4, Until: now.Add(time.Minute)}})
	demanded(s)
	s.Allow(now, PoolGrant{Allowances: tokensOnly(escrow.Allowance{Since: now, Until: now.Add(time.Minute), Level: 100, Rate: 40_000})})
	if d, _ := s.Demand(now); d.Allowed[escrow.Tokens].Rate != 30_000 || d.Left[escrow.Tokens] != 100 {
		t.Errorf("of 40000 a minute %d are held, and of 100 at once %d", d.Allowed[escrow.Tokens].Rate, d.Left[escrow.Tokens])
	}
}

// TestShared_CutAlone: nor does a pool that is cut off allow itself more than they have.
func TestShared_CutAlone(t *testing.T) {
	cfg := sharedConfig()
	cfg.Pools[0].OnLoss = LossOpen
	g, s := shared(t, cfg)
	now := time.Now()
	g.Throttle("p", []Cut{{Part: Whole / 4, Until: now.Add(time.Minute)}})
	s.Alone(now, 1)
	if d, _ := s.Demand(now); d.Allowed[escrow.Tokens].Rate != 60_000*99/100*3/4 {
		t.Errorf("with a quarter missing it allows itself %d a minute", d.Allowed[escrow.Tokens].Rate)
	}
}

// TestShared_CutRetry: who comes back when told to a pool that is cut off, and hands out
// nothing, is told again, and does not wait for a place that was never promised.
func TestShared_CutRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sharedConfig()
		cfg.Pools[0].TicketWait = 10 * time.Second
		g, s := shared(t, cfg)
		allow(s, 1000)
		time.Sleep(5 * time.Second)
		for range 5 {
			s.Alone(time.Now(), 2)
			_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "free", Pool: "p", Input: 10, Output: 10}))
			if rej == nil || rej.Reason != ReasonStoreLost || rej.Waited != 0 || rej.Kept {
				t.Fatalf("got %+v", rej)
			}
			time.Sleep(rej.RetryAfter)
		}
	})
}

// TestShared_Measured: what tenants are entitled to here is by the shares that they have
// here.
func TestShared_Measured(t *testing.T) {
	_, s := shared(t, sharedConfig())
	demanded(s)
	weights := func() (free, acme float64) {
		s.g.look()
		defer s.g.unlock()
		p := s.find()
		p.viewAnew()
		part := make([]float64, len(p.measure.view.leaves))
		p.measure.view.tree.Guaranteed(part)
		for st, i := range p.measure.view.index {
			switch st.name {
			case "free":
				free = part[i]
			case "acme", "acme/search", "acme/search/deep":
				acme += part[i]
			}
		}
		return free, acme
	}
	if free, acme := weights(); free/acme < 0.74 || free/acme > 0.76 {
		t.Fatalf("free has %v and acme %v, want 3 to 4", free, acme)
	}
	for id, path := range s.tree.paths {
		if path == "acme" {
			s.Allow(time.Now(), PoolGrant{Shares: []NodeShare{{id, 250_000}}})
		}
	}
	if !s.find().measure.reshared {
		t.Error("the meter is not told of new shares")
	}
	if free, acme := weights(); free/acme < 2.9 || free/acme > 3.1 {
		t.Errorf("free has %v and acme %v where a quarter of acme is, want 3 to 1", free, acme)
	}
}

// TestShared_LearningPromises: while the store learns what was used, a refusal promises the time that
// it takes; seconds, if it ends as soon as the expected nodes have reported.
func TestShared_LearningPromises(t *testing.T) {
	for expect, want := range map[int]time.Duration{0: 45 * time.Second, 2: refusal.LossRetry} {
		synctest.Test(t, func(t *testing.T) {
			cfg := sharedConfig()
			cfg.Pools[0].ExpectNodes = expect
			g, s := shared(t, cfg)
			s.Learns(time.Now().Add(45*time.Second), false)
			_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "x", Pool: "p", Input: 700}))
			if rej == nil || rej.Reason != ReasonStoreLost || rej.RetryAfter != want {
				t.Errorf("with %d nodes expected the promise is %v, want %v", expect, rej, want)
			}
		})
	}
}

// TestShared_Spare: a call for which the pool has room, though not here, waits a moment for the next grant, even if it may not wait. If
// that does not bring it, the refusal says how little is granted here, and to come back soon.
func TestShared_Spare(t *testing.T) {
	for name, c := range map[string]struct {
		spare, saved int64
		grant        bool
		waited       time.Duration
		retry        time.Duration
	}{
		"the next grant brings it":    {50_000, 50_000, true, 100 * time.Millisecond, 0},
		"the next grant does not":     {50_000, 50_000, false, 250 * time.Millisecond, time.Second},
		"a late one brings it":        {50_000, 50_000, true, 100 * time.Millisecond, 0},
		"others want what is granted": {50_000, 0, false, 0, 5 * time.Second},
		"the pool has no room":        {0, 0, false, 0, time.Hour},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			g, s := shared(t, sharedConfig())
			now := time.Now()
			s.Demand(now)
			rpm := escrow.Allowance{Since: now, Until: now.Add(time.Minute), Level: 100}
			tpm := escrow.Allowance{Since: now, Until: now.Add(time.Minute), Rate: 136, Spare: c.spare, Saved: c.saved}
			if name == "a late one brings it" {
				tpm.Until = now
			}
			s.Allow(now, PoolGrant{Allowances: [2]*escrow.Allowance{&tpm, &rpm}})
			if c.grant {
				time.AfterFunc(100*time.Millisecond, func() { allow(s, 10_000) })
			}
			lease, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "free", Pool: "p", Input: 500, Output: 4000}))
			if waited := time.Since(now); waited != c.waited {
				t.Errorf("it waited for %v, want %v", waited, c.waited)
			}
			if c.grant {
				if rej != nil {
					t.Fatal(rej)
				}
				lease.Settle(Usage{})
				return
			}
			if rej == nil || rej.RetryAfter > c.retry || !strings.Contains(rej.Error(), "The minute has room, of which this node has 136 a minute just now.") {
				t.Errorf("%v, after %v", rej, rej.RetryAfter)
			}
		})
	}
}

// TestShared_Level: what there is for each unit of weight on other axes counts while the pool has limits on these.
func TestShared_Level(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sharedConfig()
		cfg.Pools[0].OTPM = 1000
		g, s := shared(t, cfg)
		if d := demanded(s); d.Level != 0 {
			t.Errorf("nobody has said anything yet, and the level is %v", d.Level)
		}
		others := g.SharedPools()[1]
		demanded(others)
		others.Allow(time.Now(), PoolGrant{Others: &[2]int64{}, Level: 7})
		if d := demanded(s); d.Level != 7 {
			t.Errorf("the level of the output is 7, told is %v", d.Level)
		}
		cfg.Pools[0].OTPM = 0
		testkit.OK(t, g.Apply(cfg))
		if d := demanded(s); d.Level != 0 {
			t.Errorf("nothing limits the output any more, and the level is still %v", d.Level)
		}
	})
}
