package governor

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// softCapSite is a pool of 20 slots, of which a tenant may have 12 once 10 are in use. A heavy tenant with a team shares it with a light one.
func softCapSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, SoftCapPPM: 600_000, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "heavy", Weight: 9000, MaxWait: time.Hour},
			{Name: "heavy/team", Weight: 1000},
			{Name: "light", Weight: 1000, MaxWait: time.Hour},
		},
	})
}

// TestSoftCap_Explained: a call that its tenant's soft cap keeps out is told so, and so is who asks why; another tenant finds a slot at once.
func TestSoftCap_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := softCapSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		for n := range 12 {
			if rej := calls.take(t, "heavy/team"); rej != nil {
				t.Fatalf("with %d of 20 slots in use: %v", n, rej)
			}
		}
		rej := calls.take(t, "heavy/team")
		if rej == nil || rej.Limit != 12 || rej.Used != 12 || rej.Reason != ReasonConcurrency || !strings.Contains(rej.Error(), "soft_cap") {
			t.Fatalf("at the cap a call gets %+v", rej)
		}
		o, _ := g.Explain(Request{Tenant: "heavy/team", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == axisSoftCap })
		if i < 0 || o.Checks[i].Limit != 12 || o.Checks[i].Used != 12 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("at the cap the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		if rej = calls.take(t, "light"); rej != nil {
			t.Errorf("beside a tenant at its cap another is refused: %v", rej)
		}
	})
}

// TestSoftCap_EntitledIsReceived: a tenant at its soft cap, and the one that has what is left, both receive what they are
// entitled to within 3 %: the cap is policy, and no unfairness.
func TestSoftCap_EntitledIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := sharesUnder(t, softCapSite(t), 4, map[string]int{"heavy": 40, "light": 30}, func(worker int) time.Duration {
			return time.Second + time.Duration(17*worker)*time.Millisecond
		})
		for tenant, want := range map[string]float64{"heavy": 0.6, "light": 0.4} {
			got := shares[tenant]
			if math.Abs(got.Received/want-1) > 0.03 || math.Abs(got.Entitled/want-1) > 0.03 {
				t.Errorf("%s received %.4f of the pool and was entitled to %.4f, want %.1f of both", tenant, got.Received, got.Entitled, want)
			}
		}
	})
}

// TestSoftCap_Adaptive: an adaptive limit has no soft cap. One tenant alone at its cap would hold the limit at its least, because only
// a full one rises: it ran 2 calls before an upstream that could take 40.
func TestSoftCap_Adaptive(t *testing.T) {
	p := adaptivePool()
	p.SoftCapPPM = 500_000
	_, err := New(Config{Pools: []Pool{p}, Tenants: []Tenant{{Name: "a", Weight: 1000}}})
	if err == nil || !strings.Contains(err.Error(), "soft cap") {
		t.Errorf("got %v", err)
	}
}
