package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// changing finds the files bad, and puts another policy in force meanwhile.
type changing struct {
	t      *testing.T
	change func()
	done   sync.WaitGroup
}

// Reload implements Policies.
func (c *changing) Reload(ctx context.Context) (adminapi.Reloaded, error) {
	if ctx.Err() != nil {
		c.t.Error("the reload ends with who asked for it")
	}
	c.done.Go(c.change)
	return adminapi.Reloaded{}, tenants.Problems{{File: "b.yaml", What: "is bad"}}
}

// Status implements Policies.
func (c *changing) Status() adminapi.PolicyStatus { return adminapi.PolicyStatus{} }

// newKeysGateway serves two tenants.
func newKeysGateway(t *testing.T) *gateway.Gateway {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://127.0.0.1:1/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p", "m")}
	var list []tenants.Tenant
	for _, name := range []string{"acme", "bob"} {
		list = append(list, tenants.Tenant{Name: name, Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}})
	}
	gw := testkit.Must(gateway.New(gateway.Options{Admission: admissiontest.Build(t, cfg, list...), Log: slog.New(slog.DiscardHandler)}))(t)
	return gw
}

// A policy that comes while a change of keys is taken over stays in force. That who asked has gone ends nothing.
func TestKeys_PolicyChangesMeanwhile(t *testing.T) {
	gw := newKeysGateway(t)
	c := &changing{t: t}
	side := New(gw, Options{Policies: c, Metrics: http.NotFoundHandler()})
	file := keyfile.New(filepath.Join(t.TempDir(), "llmgov.keys.yaml"))
	for rpm := range int64(100) {
		list := slices.Clone(gw.Snapshot().Tenants())
		list[0].RPM = rpm + 1
		cfg := *gw.Snapshot().Config()
		next := testkit.Must(tenants.Build(cfg, list))(t)
		c.change = func() {
			if err := gw.Apply(next); err != nil {
				t.Error(err)
			}
		}
		ctx, gone := context.WithCancel(t.Context())
		gone()
		testkit.OK(t, side.takeOver(ctx, file))
		c.done.Wait()
		if got := gw.Snapshot().Tenants()[0].RPM; got != rpm+1 {
			t.Fatalf("in force is a policy with rpm %d, after one with %d came", got, rpm+1)
		}
	}
}

// Whatever is wrong is listed, errors first.
func TestConditions(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	later := at.Add(time.Minute)
	soon := time.Now().Add(5 * time.Second)
	down := func(name string, since *time.Time) adminapi.Upstream {
		return adminapi.Upstream{Name: name, Since: since}
	}
	for name, tc := range map[string]struct {
		view       adminapi.Snapshot
		notReady   error
		unreadable []adminapi.Unreadable
		want       []string
	}{
		"all well": {view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{down("u", nil)}}}, Policy: &adminapi.PolicyStatus{Success: true}}},
		"one upstream": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{down("u", &at)}}}},
			want: []string{"error upstream_down p/u since 0: Upstream u of pool p is down."},
		},
		"one that refuses connections": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{{Name: "u", Since: &at, Cause: "connection refused", Until: &soon}}}}},
			want: []string{"error upstream_down p/u since 0: Upstream u of pool p is down: connection refused; next probe in 5 s."},
		},
		"both, each with its cause": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{
				{Name: "u", Since: &at, Cause: "500 Internal Server Error"}, {Name: "v", Since: &at, Cause: "connection refused"},
			}}}},
			want: []string{"error upstream_down p/ since 0: All 2 upstreams of pool p are down. u: 500 Internal Server Error; v: connection refused."},
		},
		"one of two": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{down("u", &at), down("v", nil)}}}},
			want: []string{"warning upstream_down p/u since 0: Upstream u of pool p is down. Others serve its calls."},
		},
		"both, since the second went down": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{{Name: "p", Upstreams: []adminapi.Upstream{down("u", &at), down("v", &later)}}}},
			want: []string{"error upstream_down p/ since 60: All 2 upstreams of pool p are down."},
		},
		"store lost": {
			view: adminapi.Snapshot{Pools: []adminapi.Pool{
				{Name: "p", Sharing: &adminapi.Sharing{Error: "timeout", FailingSince: &later}},
				{Name: "q", Sharing: &adminapi.Sharing{Error: "timeout", FailingSince: &at, Degraded: "local"}},
				{Name: "r", Sharing: &adminapi.Sharing{Degraded: "learning", LearningSeconds: 8.2, Learning: "Nothing is granted."}},
				{Name: "s", Sharing: &adminapi.Sharing{}},
			}},
			want: []string{
				"error store_lost / since 0: The store does not answer for pools p, q: timeout. Failure mode in force: local.",
				"warning store_learning /: Nothing is granted. At most 9 s are left.",
			},
		},
		"accounts that cannot be read": {
			unreadable: []adminapi.Unreadable{
				{Owner: "a", Since: later, Error: "damaged; DEL 'a'"},
				{Owner: "b in p", Since: at, Error: "damaged; DEL 'b'"},
				{Owner: "c", Since: later},
				{Owner: "d", Since: later},
				{Owner: "pool p", Since: later},
				{Owner: "x", Since: later},
			},
			want: []string{"error store_unreadable / since 0: The store's accounts of these limits cannot be read: a, b in p, c, d, pool p, 1 more. " +
				"Nothing is granted of them, unless on_store_loss is open. damaged; DEL 'b'."},
		},
		"files, restart, draining, not ready": {
			view: adminapi.Snapshot{Draining: true, Policy: &adminapi.PolicyStatus{
				FailingSince: &at, NeedsRestart: []string{"listen", "store"},
				Problems: []adminapi.Problem{{File: "tenants/a.yaml", Line: 2, Column: 5, Message: `unknown key "tmp"`}, {Message: "more"}},
			}},
			notReady: errors.New("state_dir cannot be written"),
			want: []string{
				"error not_ready /: This gateway is not ready: state_dir cannot be written.",
				`error policy_invalid / since 0: tenants/a.yaml:2:5: unknown key "tmp" (and 1 more). The previous policy stays in force.`,
				"warning restart_needed /: Restart this gateway to apply listen, store.",
				"warning draining /: This gateway is draining: no new calls should be sent to it, and it ends when its calls have.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range conditionsOf(&tc.view, tc.notReady, tc.unreadable) {
				since := ""
				if c.Since != nil {
					since = fmt.Sprint(" since ", c.Since.Unix()-at.Unix())
				}
				got = append(got, fmt.Sprintf("%s %s %s/%s%s: %s", c.Severity, c.Kind, c.Pool, c.Upstream, since, c.Message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A pool whose upstreams declare lower limits says which apply, whether each upstream has its own or not.
func TestLowerLimits(t *testing.T) {
	pool := func(name string, cuts ...governor.Cut) governor.PoolState {
		return governor.PoolState{Config: governor.Pool{Name: name, TPM: 300_000, RPM: 600}, Cuts: cuts}
	}
	var got []string
	for _, c := range lowerLimits([]governor.PoolState{
		pool("as configured"), pool("down", governor.Cut{Part: 500_000}), pool("tokens", governor.Cut{TPM: 100_000}, governor.Cut{TPM: 50_000}),
		pool("both", governor.Cut{RPM: 100, Upstream: "a"}, governor.Cut{TPM: 1, Upstream: "b"}),
		pool("raised", governor.Cut{TPM: -100_000}, governor.Cut{TPM: 50_000}), pool("paced", governor.Cut{TPM: 200_000, Paced: true}),
	}) {
		got = append(got, fmt.Sprintf("%s %s %s: %s", c.Severity, c.Kind, c.Pool, c.Message))
	}
	if diff := cmp.Diff([]string{
		"warning limit_lower_than_configured tokens: The upstreams of pool tokens declare lower limits than are configured, or others use them, and what is left is kept to: tpm 150000 instead of 300000.",
		"warning limit_lower_than_configured both: The upstreams of pool both declare lower limits than are configured, or others use them, and what is left is kept to: tpm 299999 instead of 300000, rpm 500 instead of 600.",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A page has the tenants that were asked for, and leads to the next; pages one after the other have all.
func TestPage(t *testing.T) {
	var list []tenants.Tenant
	for _, name := range []string{"Acme", "acme-2", "acme-2/search", "acme-2/search/deep", "beta", "gamma"} {
		list = append(list, tenants.Tenant{Name: name, Tier: map[bool]string{true: "gold", false: "free"}[name == "gamma"]})
	}
	for query, want := range map[string]string{
		"":                                   "6 Acme acme-2 acme-2/search acme-2/search/deep beta gamma",
		"q=ACME":                             "4 Acme acme-2 acme-2/search acme-2/search/deep",
		"q=gold":                             "1 gamma",
		"q=nobody":                           "0",
		"tenant=acme-2":                      "3 acme-2 acme-2/search acme-2/search/deep",
		"tenant=acme":                        "0",
		"limit=2":                            "6 Acme acme-2 → acme-2",
		"limit=2&after=acme-2":               "6 acme-2/search acme-2/search/deep → acme-2/search/deep",
		"limit=2&after=acme-2%2Fsearch/deep": "6 beta gamma",
		"after=beta":                         "6 gamma",
		"q=acme&limit=3&tenant=acme-2":       "3 acme-2 acme-2/search acme-2/search/deep",
		"after=zzz":                          "6",
		"limit=0":                            `limit must be from 1 to 10000, not "0".`,
		"limit=10001":                        `limit must be from 1 to 10000, not "10001".`,
		"limit=many":                         `limit must be from 1 to 10000, not "many".`,
		"pool=p":                             `There is no parameter "pool"; there are tenant, q, limit, after.`,
	} {
		p, err := readPage(testkit.Must(url.ParseQuery(query))(t), ofPages)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			names, total, next := p.of(list)
			got = strings.Join(append([]string{string(rune('0' + total))}, slices.Sorted(maps.Keys(names))...), " ")
			if next != "" {
				got += " → " + next
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

// The routes that are described are those that there are.
func TestOpenAPI_Routes(t *testing.T) {
	var description struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	testkit.OK(t, json.Unmarshal(adminapi.OpenAPI, &description))
	var described []string
	for path, methods := range description.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	a := &API{Options: Options{Events: &events.Ring{}, Metrics: http.NotFoundHandler(), Spend: func(context.Context, string, string) ([]spend.Row, bool, error) { return nil, false, nil }}}
	routes := append(slices.Collect(maps.Keys(a.described())), "GET /livez", "GET /readyz")
	slices.Sort(described)
	slices.Sort(routes)
	if diff := cmp.Diff(routes, described); diff != "" {
		t.Errorf("routes (-there +described):\n%s", diff)
	}
}

// A question is the same after its way through a query.
func TestQuestion_Values(t *testing.T) {
	n := int64(12)
	m := int64(0)
	d := 1500 * time.Millisecond
	for _, q := range []*adminapi.Question{
		{Tenant: "a/b", Model: "x&y=z"},
		{Tenant: "a", Model: "m", Tokens: &n, Input: &m, Priority: "background", MaxWait: &d},
		{Tenant: "a", Model: "m", Output: &n},
	} {
		got := testkit.Must(readQuestion(q.Values()))(t)
		if diff := cmp.Diff(q, got); diff != "" {
			t.Errorf("(-asked +read):\n%s", diff)
		}
	}
}
