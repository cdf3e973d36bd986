package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

func (c *changing) Reload(ctx context.Context) (adminapi.Reloaded, error) {
	if ctx.Err() != nil {
		c.t.Error("the reload ends with who asked for it")
	}
	c.done.Go(c.change)
	return adminapi.Reloaded{}, tenants.Problems{{File: "b.yaml", What: "is bad"}}
}

func (c *changing) Status() adminapi.PolicyStatus { return adminapi.PolicyStatus{} }

func keysConfig() tenants.Config {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://127.0.0.1:1/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p", "m")}
	return cfg
}

// newKeysGateway serves two tenants, and more.
func newKeysGateway(t *testing.T, cfg tenants.Config, list ...tenants.Tenant) *gateway.Gateway {
	t.Helper()
	for _, name := range []string{"acme", "bob"} {
		list = append(list, tenants.Tenant{Name: name, Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}})
	}
	gw := testkit.Must(gateway.New(gateway.Options{Admission: admissiontest.Build(t, cfg, list...), Log: slog.New(slog.DiscardHandler)}))(t)
	return gw
}

// A policy that comes while a change of keys is taken over stays in force. That who asked has gone ends nothing.
func TestKeys_PolicyChangesMeanwhile(t *testing.T) {
	gw := newKeysGateway(t, keysConfig())
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
			testkit.Same(t, tc.want, got)
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
			path = strings.Replace(path, "{tenant}", "{tenant...}", 1) // which is a path itself
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	a := &API{Options: Options{Events: &events.Ring{}, Metrics: http.NotFoundHandler(), Overrides: &kept{}, Spend: func(context.Context, string, string, func(spend.Row)) (bool, error) { return false, nil }}}
	routes := append(slices.Collect(maps.Keys(a.described())), "GET /livez", "GET /readyz")
	slices.Sort(described)
	slices.Sort(routes)
	testkit.Same(t, routes, described, "routes (-there +described)")
}

// Each role opens the routes that it is for, and no other.
func TestRoles(t *testing.T) {
	const want = `
DELETE /api/v1/keys/{id}: keys admin
DELETE /api/v1/overrides/{tenant...}: operate admin
DELETE /api/v1/tenants/{name}: admin
GET /api/openapi.json: view keys operate admin
GET /api/v1/events: view operate admin
GET /api/v1/explain: view operate admin
GET /api/v1/fairness: view operate admin
GET /api/v1/history: view operate admin
GET /api/v1/keys: view keys operate admin
GET /api/v1/leases: view operate admin
GET /api/v1/me: view keys operate admin
GET /api/v1/overrides: view operate admin
GET /api/v1/overrides/{tenant...}: view operate admin
GET /api/v1/policy: view operate admin
GET /api/v1/snapshot: view operate admin
GET /api/v1/spend: view operate admin
GET /api/v1/tenants: view operate admin
GET /api/v1/tenants/{name}: admin
GET /debug/pprof/: admin
GET /debug/pprof/profile: admin
GET /debug/pprof/symbol: admin
GET /debug/pprof/trace: admin
GET /metrics: view operate admin
GET /version: view keys operate admin
POST /api/v1/drain: operate admin
POST /api/v1/keys: keys admin
POST /api/v1/reload: operate admin
PUT /api/v1/overrides/{tenant...}: operate admin
PUT /api/v1/tenants/{name}: admin
`
	a := &API{Options: Options{
		Events: &events.Ring{}, Metrics: http.NotFoundHandler(), Token: "t", Overrides: &kept{},
		Spend: func(context.Context, string, string, func(spend.Row)) (bool, error) { return false, nil },
	}}
	routes := a.described()
	maps.Copy(routes, a.profiles())
	got := "\n"
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		got += pattern + ":"
		for _, role := range []tenants.Role{"", tenants.RoleView, tenants.RoleKeys, tenants.RoleOperate, tenants.RoleAdmin} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{AdminRole: tenants.AdminRole{Role: role}}))
			w := httptest.NewRecorder()
			allowed(pattern, route{routes[pattern].needs, func(http.ResponseWriter, *http.Request) {}})(w, r)
			if w.Code == http.StatusOK {
				got += " " + string(role)
			}
		}
		got += "\n"
	}
	testkit.Same(t, want, got)
}

// kept has what was set at run time, and puts nothing in force.
type kept struct {
	set tenants.AtRuntime
	err error
}

func (k *kept) InForce() tenants.AtRuntime { return k.set }

func (k *kept) Change(_ context.Context, edit func(*tenants.AtRuntime) error) error {
	if k.err != nil {
		return k.err
	}
	next := tenants.AtRuntime{Overrides: slices.Clone(k.set.Overrides), Tenants: slices.Clone(k.set.Tenants)}
	err := edit(&next)
	if err == nil {
		text, _ := json.Marshal(next)
		k.set = tenants.AtRuntime{}
		err = json.Unmarshal(text, &k.set)
	}
	return err
}

// audited are the changes of a log, a line each.
func audited(log []byte, show func(map[string]any) string) string {
	var lines []string
	for line := range bytes.Lines(log) {
		var l map[string]any
		if json.Unmarshal(line, &l) == nil && l["msg"] == "audit" {
			lines = append(lines, fmt.Sprint(l["action"], " ", show(l)))
		}
	}
	return strings.Join(lines, "\n")
}

// TestOverrides: an override is set, changed and cleared as often as one likes, by those who know its state, and bad ones are refused in words.
func TestOverrides(t *testing.T) {
	seven := int64(7)
	k := &kept{set: tenants.AtRuntime{Overrides: []tenants.Override{{Tenant: "crew/~bob", RPM: &seven}, {Tenant: "crew/~key:bob", TPM: &seven}}}} // by an earlier release
	var log bytes.Buffer
	crew := tenants.Tenant{Name: "crew", Weight: 1, Members: &tenants.Members{By: tenants.MemberBy{Source: tenants.ByKey}, Each: tenants.MemberLimits{Weight: 1}}}
	crew.Keys = []tenants.Key{{Hash: tenants.HashKey("crew")}}
	side := New(newKeysGateway(t, keysConfig(), crew), Options{Metrics: http.NotFoundHandler(), Overrides: k, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	tag := ""
	for _, c := range []struct {
		method, path, body string
		header             string // name and value; TAG is that of the last answer
		want               string // status, and a part of the answer
	}{
		{"GET", "/crew/~bob", "", "", `200 "tpm": 7`},
		{"DELETE", "/crew/~bob", "", "If-Match: TAG", "204 "},
		{"GET", "/crew/~bob", "", "", "404 override_not_found"},
		{"GET", "/acme", "", "", "404 override_not_found"},
		{"DELETE", "/acme", "", "", "204 "},
		{"PUT", "/acme", `{"tpm":500000,"until":"2999-01-01T00:00:00+01:00","why":"launch"}`, "", `201 "until": "2998-12-31T23:00:00Z"`},
		{"PUT", "/acme", `{"tpm":500000,"until":"2998-12-31T23:00:00Z","why":"launch"}`, "", "200 loopback"},
		{"GET", "/acme", "", "", `200 "tpm": 500000`},
		{"PUT", "/acme", `{"tpm":1,"why":"x"}`, "If-None-Match: *", "412 override_changed"},
		{"PUT", "/acme", `{"tpm":1,"why":"x"}`, `If-Match: "0"`, "412 override_changed"},
		{"PUT", "/acme", `{"rpm":0,"why":"x"}`, "If-Match: TAG", `200 "rpm": 0`},
		{"PUT", "/bob", `{"concurrency":3,"why":"x"}`, "If-Match: *", "412 override_changed"},
		{"PUT", "/bob", `{"concurrency":3,"why":"x"}`, "If-None-Match: *", `201 "until": null`},
		{"GET", "", "", "", "200 bob"},
		{"DELETE", "/bob", "", `If-Match: "0", TAG`, "412 override_changed"}, // that of the list: none
		{"DELETE", "/bob", "", "If-Match: *", "204 "},
		{"DELETE", "/bob", "", "If-Match: *", "412 override_changed"},
		{"PUT", "/nobody", `{"tpm":1,"why":"x"}`, "", "404 tenant_not_found"},
		{"PUT", "/acme/none", `{"tpm":1,"why":"x"}`, "", "404 acme/none"},
		{"PUT", "/acme%2Fnone", `{"tpm":1,"why":"x"}`, "", "404 acme/none"},
		{"PUT", "/bob", `{"tpm":-1,"why":"x"}`, "", "400 tpm must be from 0"},
		{"PUT", "/bob", `{"tpm":1000000000001,"why":"x"}`, "", "400 tpm must be from 0"},
		{"PUT", "/bob", `{"tpm":1.5,"why":"x"}`, "", "400 The body"},
		{"PUT", "/bob", `{"tpms":1,"why":"x"}`, "", "400 The body"},
		{"PUT", "/bob", `{"tenant":"acme","tpm":1,"why":"x"}`, "", "400 The path names"},
		{"PUT", "/bob", `{"why":"x"}`, "", "400 Nothing is overridden"},
		{"PUT", "/bob", `{"weight":0,"why":"x"}`, "", "400 weight must be from 0.001"},
		{"PUT", "/bob", `{"weight":2.5,"budgets":["5000 tokens per day, then background","9 requests per life"],"pools":["rpm 7 in p"],"why":"x"}`, "", `201 "rpm 7 in p"`},
		{"DELETE", "/bob", "", "", "204 "},
		{"PUT", "/crew/~ann", `{"rpm":7,"why":"x"}`, "", "201 crew/~key:ann"}, // a member has two names
		{"PUT", "/crew/~key:ann", `{"rpm":7,"why":"x"}`, "If-Match: TAG", `200 "rpm": 7`},
		{"PUT", "/crew/~ann", `{"tenant":"crew/~key:ann","rpm":8,"why":"x"}`, "", `200 "rpm": 8`},
		{"GET", "/crew/~key:ann", "", "", `200 "rpm": 8`},
		{"DELETE", "/crew/~ann", "", "If-Match: TAG", "204 "},
		{"GET", "/crew/~key:ann", "", "", "404 override_not_found"},
		{"PUT", "/bob", `{"budgets":["5000 tokens a day"],"why":"x"}`, "", "400 is no budget; write one such as"},
		{"PUT", "/bob", `{"budgets":["0 tokens per day"],"why":"x"}`, "", "400 is out of range"},
		{"PUT", "/bob", `{"budgets":["1.5 tokens per day"],"why":"x"}`, "", "400 more than 0 decimals"},
		{"PUT", "/bob", `{"budgets":["5 tokens per day","6 tokens per day"],"why":"x"}`, "", "400 counts the same"},
		{"PUT", "/bob", `{"rpm":1,"budgets":[],"why":"x"}`, "", "400 budgets is empty"},
		{"PUT", "/bob", `{"budgets":["5 usd per day"],"why":"x"}`, "", "400 needs prices"},
		{"PUT", "/bob", `{"pools":["rpm 7 in q"],"why":"x"}`, "", "400 no pool"},
		{"PUT", "/bob", `{"pools":["rpm 0 in p"],"why":"x"}`, "", "400 is no limit in a pool"},
		{"PUT", "/bob", `{"pools":["rpm 5 in p","rpm 6 in p"],"why":"x"}`, "", "400 is there twice"},
		{"PUT", "/bob/~ann", `{"rpm":7,"why":"x"}`, "", "400 has no members"},
		{"PUT", "/gone/~ann", `{"rpm":7,"why":"x"}`, "", "404 tenant_not_found"},
		{"PUT", "/bob", `{"tpm":1}`, "", "400 why is missing"},
		{"PUT", "/bob", `{"tpm":1,"why":"a\nb"}`, "", "400 why has"},
		{"PUT", "/bob", `{"tpm":1,"why":"x","until":"2020-01-01T00:00:00Z"}`, "", "400 is over"},
		{"PUT", "/bob", `{"tpm":1,"why":"x","until":"friday"}`, "", "400 The body"},
	} {
		r := httptest.NewRequest(c.method, "http://localhost/api/v1/overrides"+c.path, strings.NewReader(c.body))
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, strings.Replace(value, "TAG", tag, 1))
		}
		w := httptest.NewRecorder()
		side.ServeHTTP(w, r)
		tag = w.Header().Get("ETag")
		status, part, _ := strings.Cut(c.want, " ")
		if fmt.Sprint(w.Code) != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s %s %s %s: %d %s, want %s", c.method, c.path, c.body, c.header, w.Code, w.Body, c.want)
		}
	}
	want := `override.clear crew/~key:bob: tpm 7 → <nil>
override.set acme: - → tpm 500000
override.set acme: tpm 500000 → rpm 0
override.set bob: - → concurrency 3
override.clear bob: concurrency 3 → <nil>
override.set bob: - → weight 2.5, 5000 tokens per day, then background, 9 requests per life, rpm 7 in p
override.clear bob: weight 2.5, 5000 tokens per day, then background, 9 requests per life, rpm 7 in p → <nil>
override.set crew/~key:ann: - → rpm 7
override.set crew/~key:ann: rpm 7 → rpm 8
override.clear crew/~key:ann: rpm 8 → <nil>`
	testkit.Same(t, want, audited(log.Bytes(), func(l map[string]any) string {
		return fmt.Sprintf("%v: %v → %v", l["tenant"], l["before"], l["limits"])
	}))
	k.err = fmt.Errorf("%w: refused", ErrStore)
	w := httptest.NewRecorder()
	side.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "http://localhost/api/v1/overrides/acme", strings.NewReader(`{"tpm":1,"why":"x"}`)))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "store_unavailable") {
		t.Errorf("without the store: %d %s", w.Code, w.Body)
	}
}

// TestRuntimeTenants: a tenant is set, changed and cleared as often as one likes, and what the policy refuses is told in its words.
func TestRuntimeTenants(t *testing.T) {
	k := &kept{}
	var log bytes.Buffer
	side := New(newKeysGateway(t, keysConfig()), Options{Metrics: http.NotFoundHandler(), Overrides: k, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	tag := ""
	for _, c := range []struct {
		method, path, body, header string // as in TestOverrides
		err                        error
		want                       string
	}{
		{"GET", "/acme", "", "", nil, "404 is in the policy files"},
		{"GET", "/none", "", "", nil, "404 tenant_not_found"},
		{"DELETE", "/acme", "", "", nil, "204 "},
		{"PUT", "/acme", ` {"tier": "pro"}`, "", nil, `201 "tier": "pro"`},
		{"PUT", "/acme", `{"tier":"pro"}`, "X-Llmgov-Why: again", nil, `200 "by": "loopback"`},
		{"GET", "/acme", "", "", nil, `200 "policy": {`},
		{"PUT", "/acme", `{"rpm":1}`, "If-None-Match: *", nil, "412 override_changed"},
		{"PUT", "/acme", `{"rpm":1}`, `If-Match: "0"`, nil, "412 override_changed"},
		{"PUT", "/acme", `{"rpm":1}`, "If-Match: TAG", nil, `200 "rpm": 1`},
		{"PUT", "/acme", `{"rpm": 1, "about":"<&>"}`, "", nil, `200 "rpm": 1`},
		{"PUT", "/acme", `{"rpm":1,"about":"<&>"}`, "", nil, `200 "rpm": 1`},
		{"PUT", "/acme", `[1]`, "", nil, "400 it is no JSON object"},
		{"PUT", "/acme", `{"rpm":`, "", nil, "400 The body"},
		{"PUT", "/acme", ``, "", nil, "400 The body"},
		{"PUT", "/acme", `{"rmp":1}`, "", tenants.Trial{Err: tenants.Problems{{File: "b.yaml", What: "unknown key"}}}, "400 unknown key"}, // wherever it is told
		{"PUT", "/acme", `{"rpm":3}`, "", tenants.Problems{{File: "b.yaml", What: "is bad"}}, "409 b.yaml"},
		{"PUT", "/acme", `{"rpm":3}`, "", ErrNoFiles, "409 no_policy_files"},
		{"PUT", "/acme", `{"rpm":3}`, "", ErrStore, "503 store_unavailable"},
		{"DELETE", "/acme", "", "", tenants.Trial{Err: tenants.Problems{{File: "b.yaml", What: "is bad"}}}, "409 b.yaml"},
		{"DELETE", "/acme", "", `If-Match: "0"`, nil, "412 override_changed"},
		{"DELETE", "/acme", "", "If-Match: *", nil, "204 "},
		{"DELETE", "/acme", "", "", nil, "204 "},
	} {
		k.err = c.err
		r := httptest.NewRequest(c.method, "http://localhost/api/v1/tenants"+c.path, strings.NewReader(c.body))
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, strings.Replace(value, "TAG", tag, 1))
		}
		w := httptest.NewRecorder()
		side.ServeHTTP(w, r)
		tag = w.Header().Get("ETag")
		status, part, _ := strings.Cut(c.want, " ")
		if fmt.Sprint(w.Code) != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s %s %s %s: %d %s, want %s", c.method, c.path, c.body, c.header, w.Code, w.Body, c.want)
		}
	}
	want := `tenant.set {"tier":"pro"}, before null
tenant.set {"rpm":1}, before {"tier":"pro"}
tenant.set {"about":"\u003c\u0026\u003e","rpm":1}, before {"rpm":1}
tenant.clear null, before {"about":"\u003c\u0026\u003e","rpm":1}`
	testkit.Same(t, want, audited(log.Bytes(), func(l map[string]any) string {
		policy, _ := json.Marshal(l["policy"])
		before, _ := json.Marshal(l["before"])
		return fmt.Sprintf("%s, before %s", policy, before)
	}))
}

// byToken is a gateway whose identity providers have given out a token each.
type byToken struct{ *gateway.Gateway }

func (byToken) Groups(token string) (user, issuer string, groups []string) {
	switch token {
	case "of.ann.":
		return "ann", "https://people", []string{"everybody", "oncall", "root"}
	case "of.job.":
		return "job", "https://jobs", []string{"everybody", "oncall", "root"}
	}
	return "", "", nil
}

// TestRoles_Callers: who calls is known by a token, that of an identity provider, or a proxy in its network, and the audit log names them.
func TestRoles_Callers(t *testing.T) {
	cfg := keysConfig()
	cfg.Admin.Token = "the-admin-token-0"
	cfg.Admin.Roles = []tenants.AdminRole{
		{Name: "dashboards", Role: tenants.RoleView, Token: "the-view-token-00"},
		{Name: "proxied", Role: tenants.RoleAdmin, Group: "root", Issuer: tenants.ProxyIssuer},
		{Name: "on-call", Role: tenants.RoleOperate, Group: "oncall", Issuer: "https://people"},
		{Name: "on-call", Role: tenants.RoleOperate, Group: "oncall", Issuer: tenants.ProxyIssuer},
		{Name: "all", Role: tenants.RoleView, Group: "everybody"},
	}
	cfg.Identity = tenants.Identity{Issuers: []tenants.Issuer{{Issuer: "https://people", Audience: "llmgov"}}, Tenant: "{org}"}
	cfg.Admin.Proxy = tenants.AdminProxy{From: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, User: "X-Forwarded-User", Groups: "X-Forwarded-Groups"}
	var log bytes.Buffer
	side := New(byToken{newKeysGateway(t, cfg)}, Options{
		Metrics: http.NotFoundHandler(), Token: cfg.Admin.Token, Drain: func() {}, Console: http.NotFoundHandler(), Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	user := func(name, groups string) []string {
		return []string{"X-Forwarded-User", name, "X-Forwarded-Groups", groups}
	}
	key := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, c := range []struct {
		from   string
		header []string
		want   string // view, drain, and whether the console's page asks for a token
		actor  string
	}{
		{"10.2.0.1:1", nil, "401 401 true", ""},
		{"10.2.0.1:1", key("nope"), "401 401 true", ""},
		{"10.2.0.1:1", key("acme"), "401 401 true", ""}, // a tenant's
		{"10.2.0.1:1", key("the-admin-token-0"), "200 202 true", "admin token admin"},
		{"10.2.0.1:1", key("the-view-token-00"), "200 403 true", ""},
		{"10.2.0.1:1", key("of.ann."), "200 202 true", "ann (on-call) operate"},
		{"10.2.0.1:1", key("of.job."), "200 403 true", ""}, // another issuer's groups
		{"10.1.9.9:1", user("bob", "root"), "200 202 false", "bob (proxied) admin"},
		{"10.2.0.1:1", user("bob", "oncall"), "401 401 true", ""}, // not the proxy
		{"127.0.0.1:1", user("bob", "oncall"), "401 401 true", ""},
		{"10.1.9.9:1", user("bob", "a, oncall"), "200 202 false", "bob (on-call) operate"},
		{"[::ffff:10.1.9.9]:1", user("bob", "everybody"), "200 403 false", ""},
		{"10.1.9.9:1", user("bob", ""), "403 403 false", ""},
		{"10.1.9.9:1", user("bob", "on-call"), "403 403 false", ""}, // the name of a role is no group
		{"10.1.9.9:1", user("", "oncall"), "401 401 true", ""},
		{"10.1.9.9:1", append(user("bob", "everybody"), key("the-admin-token-0")...), "200 202 false", "admin token admin"},
	} {
		log.Reset()
		ask := func(method, path string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "http://admin"+path, nil)
			r.RemoteAddr = c.from
			r.Header.Set("X-Llmgov-Why", "a test")
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			side.ServeHTTP(w, r)
			return w
		}
		got := fmt.Sprintf("%d %d %s", ask(http.MethodGet, "/version").Code, ask(http.MethodPost, "/api/v1/drain").Code, strings.TrimSpace(ask(http.MethodGet, "/console/token").Body.String()))
		if got != c.want {
			t.Errorf("%s %q: %s, want %s", c.from, c.header, got, c.want)
		}
		var line struct{ Msg, Actor, Role, Why string }
		_ = json.Unmarshal(log.Bytes(), &line)
		if got := line.Actor + " " + line.Role; line.Msg == "audit" && (got != c.actor || line.Why != "a test") || (line.Msg == "audit") != (c.actor != "") {
			t.Errorf("%s %q: the log has %s", c.from, c.header, log.String())
		}
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
		testkit.Same(t, q, got, "(-asked +read)")
	}
}
