package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// explainSite is a gateway over real files, in front of a model server that takes its
// time. The keys of tenants are their names.
type explainSite struct {
	t           *testing.T
	gateway     *Gateway
	gov         *governor.Governor
	takes       time.Duration
	dir         string
	calls       sync.WaitGroup
	data, admin http.Handler
}

func newExplainSite(t *testing.T, config, tenantsYAML string) *explainSite {
	t.Helper()
	s := newQuickSite(t, config, tenantsYAML)
	time.Sleep(time.Minute) // the pace of a pool that has just begun is not what is asked about
	return s
}

// newQuickSite is newExplainSite with a pool that has just begun.
func newQuickSite(t *testing.T, config, tenantsYAML string) *explainSite {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"llmgov.yaml":    "upstreams: {u: {base_url: \"http://u/v1\"}}\n" + config + "\n",
		"tenants/a.yaml": "tenants:\n" + tenantsYAML + "\n",
	} {
		full := filepath.Join(dir, name)
		testkit.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		testkit.OK(t, os.WriteFile(full, []byte(withKeys(text)), 0o600))
	}
	snap := testkit.Must(tenants.Load(filepath.Join(dir, "llmgov.yaml"), tenants.Options{}))(t)
	s := &explainSite{t: t, takes: 10 * time.Second, dir: dir + "/"}
	ctl := admissiontest.New(t, snap)
	s.gov = ctl.Governor()
	s.gateway = testkit.Must(New(Options{Admission: ctl, Log: slog.New(slog.DiscardHandler), Transport: s}))(t)
	s.data, s.admin = s.gateway, adminSide(s.gateway, admin.Options{})
	return s
}

// withKeys puts hashes where a policy says KEY(name).
func withKeys(text string) string {
	for {
		before, rest, found := strings.Cut(text, "KEY(")
		if !found {
			return text
		}
		name, after, _ := strings.Cut(rest, ")")
		text = before + `"` + tenants.HashKey(name).String() + `"` + after
	}
}

// RoundTrip implements http.RoundTripper: an answer of ten tokens, after a while.
func (s *explainSite) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.takes)
	body := `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (s *explainSite) call(key, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)).WithContext(s.t.Context())
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.data.ServeHTTP(w, r)
	return w
}

// begin lets a call run, or wait.
func (s *explainSite) begin(key string) {
	s.calls.Go(func() { s.call(key, plainCall) })
	synctest.Wait()
}

// done lets a call run to its end.
func (s *explainSite) done(key string) {
	s.t.Helper()
	if w := s.call(key, plainCall); w.Code != http.StatusOK {
		s.t.Fatalf("a call before gets %d: %s", w.Code, w.Body)
	}
}

func (s *explainSite) ask(query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/explain?"+query, nil))
	return w
}

func (s *explainSite) explain(query string) *adminapi.Explanation {
	s.t.Helper()
	w := s.ask(query)
	x := &adminapi.Explanation{}
	if err := json.Unmarshal(w.Body.Bytes(), x); err != nil || w.Code != http.StatusOK {
		s.t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return x
}

const plainCall = `{"model":"m","messages":[],"max_tokens":100}`

// weighed is what the gateway takes a body for that a tenant sends.
func (s *explainSite) weighed(key, body string) int64 {
	h, bad := head.Read([]byte(body))
	if bad != nil {
		s.t.Fatal(bad)
	}
	w := s.gateway.world.Load()
	t, _, _ := w.Snapshot.Lookup(key)
	return w.Estimates(t.Index).Prompts.Estimate("m", h.Prompt.Size)
}

// said is how a call ends, as far as the caller sees it.
type said struct {
	Status              int
	Code, Type, Message string
	RetryAfterMS        string
}

func saidBy(d *adminapi.Decision) said {
	out := said{d.Status, d.Code, d.Type, d.Message, ""}
	if d.Outcome != adminapi.OutcomeRefuse {
		out.Status = http.StatusOK
	}
	if d.RetryAfter > 0 {
		out.RetryAfterMS = strconv.FormatFloat(d.RetryAfter*1000, 'f', 0, 64)
	}
	return out
}

func answered(w *httptest.ResponseRecorder) said {
	var e struct {
		Error struct{ Code, Type, Message string }
	}
	_ = json.Unmarshal(w.Body.Bytes(), &e)
	ms := w.Header().Get("x-llmgov-turn-ms")
	if ms == "" {
		ms = w.Header().Get("retry-after-ms")
	}
	return said{w.Code, e.Error.Code, e.Error.Type, e.Error.Message, ms}
}

const roomyPool = `pools: {p: {models: [m], rpm: 6000}}`

// What is explained is what the data side then answers, to the letter.
func TestExplain_IsWhatIsAnswered(t *testing.T) {
	for _, tc := range []struct {
		name           string
		config, policy string
		before         func(s *explainSite)
		body           string // plainCall where it is empty
		header         []string
		query          string
		want           string // outcome, code and type
		decider        string // of, kind, axis and place
		exact          bool   // the wait is known, not guessed
	}{
		{
			name: "nothing in the way", config: roomyPool, policy: `  a: {rpm: 2, keys: [KEY(a)]}`,
			want: "admit",
		},
		{
			name: "own requests", config: roomyPool, policy: `  a: {rpm: 1, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse rate_limit_exceeded requests", decider: "a limit requests tenants/a.yaml:2:12",
		},
		{
			name: "own requests, and time", config: roomyPool, policy: `  a: {rpm: 1, max_wait: 2m, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") },
			want:   "wait", decider: "a limit requests tenants/a.yaml:2:12", exact: true,
		},
		{
			name: "own requests, and time that the caller has not", config: roomyPool, policy: `  a: {rpm: 1, max_wait: 2m, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") }, header: []string{"x-llmgov-max-wait", "3s"}, query: "&max_wait=3s",
			want: "refuse rate_limit_exceeded requests", decider: "a limit requests tenants/a.yaml:2:12",
		},
		{
			name: "own tokens", config: roomyPool, policy: `  a: {tpm: 150, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a") },
			want:   "refuse rate_limit_exceeded tokens", decider: "a limit tokens tenants/a.yaml:2:12",
		},
		{
			name: "own tokens of output", config: roomyPool, policy: `  a: {otpm: 150, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a") },
			want:   "refuse rate_limit_exceeded tokens", decider: "a limit output_tokens tenants/a.yaml:2:13",
		},
		{
			name: "own calls at once", config: `pools: {p: {models: [m], rpm: 6000, ticket_wait: 0s}}`, policy: `  a: {concurrency: 1, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a") },
			want:   "refuse rate_limit_exceeded concurrency", decider: "a limit concurrency tenants/a.yaml:2:20",
		},
		{
			name: "own requests in the pool", config: roomyPool, policy: "  a:\n    pools:\n      p: {rpm: 1}\n    keys: [KEY(a)]",
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse rate_limit_exceeded requests", decider: "a limit requests tenants/a.yaml:4:16",
		},
		{
			name: "own line", config: `pools: {p: {models: [m], rpm: 6000, max_queue: 1}}`, policy: `  a: {rpm: 1, max_wait: 10m, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a"); s.begin("a") },
			want:   "refuse rate_limit_exceeded share", decider: "a limit requests tenants/a.yaml:2:12",
		},
		{
			name: "the parent's requests", config: roomyPool, policy: "  a:\n    rpm: 1\n    teams: {x: {rpm: 100, keys: [KEY(a)]}, y: {keys: [KEY(b)]}}",
			before: func(s *explainSite) { s.done("b") }, query: "&tenant=a/x",
			want: "refuse rate_limit_exceeded requests", decider: "a limit requests tenants/a.yaml:3:10",
		},
		{
			name: "own budget", config: roomyPool, policy: "  a:\n    budgets: [{tokens: 9000, per: day}, {requests: 1, per: week}]\n    keys: [KEY(a)]",
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse insufficient_quota insufficient_quota", decider: "a budget requests per week tenants/a.yaml:3:41",
		},
		{
			name: "what is held of a budget", config: roomyPool, policy: "  a:\n    budgets: [{requests: 1, per: day}]\n    keys: [KEY(a)]",
			before: func(s *explainSite) { s.begin("a") },
			want:   "refuse rate_limit_exceeded requests", decider: "a budget requests per day tenants/a.yaml:3:15",
		},
		{
			name: "own budget, spent with 402", config: roomyPool, policy: "  a:\n    spent: 402\n    budgets: [{requests: 1, per: week}]\n    teams: {x: {keys: [KEY(a)]}, y: {keys: [KEY(b)]}}",
			before: func(s *explainSite) { s.done("b") }, query: "&tenant=a/x",
			want: "refuse insufficient_quota invalid_request_error", decider: "a budget requests per week tenants/a.yaml:4:15",
		},
		{
			name:   "a budget in dollars",
			config: "pools: {p: {models: [m], rpm: 6000}}\nprices: {m: {input: 1, output: 10000}}", policy: "  a:\n    budgets: [{usd: 0.1, per: month}]\n    keys: [KEY(a)]",
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse insufficient_quota insufficient_quota", decider: "a budget usd per month tenants/a.yaml:3:15",
		},
		{
			name: "the pool's budget", config: `pools: {p: {models: [m], rpm: 6000, budgets: [{requests: 1, per: day}]}}`, policy: `  a: {keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse insufficient_quota insufficient_quota", decider: "p budget requests per day llmgov.yaml:2:47",
		},
		{
			name:   "a share of the pool's budget",
			config: `pools: {p: {models: [m], rpm: 6000, budgets: [{requests: 5, per: day}]}}`, policy: "  a: {keys: [KEY(a)]}\n  b: {weight: 4, keys: [KEY(b)]}",
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse rate_limit_exceeded share", decider: "p budget requests per day llmgov.yaml:2:47",
		},
		{
			name: "the pool's requests", config: `pools: {p: {models: [m], rpm: 1, headroom: 0, ticket_wait: 0s}}`, policy: `  a: {keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") },
			want:   "refuse rate_limit_exceeded requests", decider: "p pool requests llmgov.yaml:2:31",
		},
		{
			name: "the pool's slots", config: `pools: {p: {models: [m], concurrency: 1, ticket_wait: 0s}}`, policy: `  a: {keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a") },
			want:   "refuse rate_limit_exceeded concurrency", decider: "p pool concurrency llmgov.yaml:2:39",
		},
		{
			name: "slots for others", config: `pools: {p: {models: [m], concurrency: {max: 2, interactive_reserve: 1}, ticket_wait: 0s}}`, policy: `  a: {keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.begin("a") }, header: []string{"x-llmgov-priority", "background"}, query: "&priority=background",
			want: "refuse rate_limit_exceeded concurrency", decider: "p pool background llmgov.yaml:2:69",
		},
		{
			name: "slots for others, as a client says", config: `pools: {p: {models: [m], concurrency: {max: 2, interactive_reserve: 1}, ticket_wait: 0s}}`,
			policy: `  a: {keys: [KEY(a)], priority_by: {header: x-agent-class, title: background}}`,
			before: func(s *explainSite) { s.begin("a") }, header: []string{"x-agent-class", "title"}, query: "&priority=background",
			want: "refuse rate_limit_exceeded concurrency", decider: "p pool background llmgov.yaml:2:69",
		},
		{
			name:   "others who wait",
			config: `pools: {p: {models: [m], concurrency: 1, ticket_wait: 0s}}`, policy: "  a: {keys: [KEY(a)]}\n  b: {max_wait: 1h, keys: [KEY(b)]}",
			before: func(s *explainSite) { s.begin("a"); s.begin("b") },
			want:   "refuse rate_limit_exceeded share", decider: "p pool concurrency llmgov.yaml:2:39",
		},
		{
			name:   "a full queue",
			config: `pools: {p: {models: [m], concurrency: 1, max_queue: 1}}`, policy: "  a: {max_wait: 1h, keys: [KEY(a)]}\n  b: {max_wait: 1h, keys: [KEY(b)]}",
			before: func(s *explainSite) { s.begin("b"); s.begin("b") },
			want:   "refuse overloaded overloaded", decider: "p pool concurrency llmgov.yaml:2:39",
		},
		{
			name: "a drain", config: roomyPool, policy: `  a: {rpm: 1, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a"); s.gov.Drain() },
			want:   "refuse draining draining",
		},
		{
			name: "a drain, under shadow", config: roomyPool, policy: `  a: {rpm: 1, shadow: true, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.gov.Drain() },
			want:   "refuse draining draining",
		},
		{
			name: "a prompt that never fits", config: `pools: {p: {models: [m], tpm: 500}}`, policy: `  a: {shadow: true, keys: [KEY(a)]}`,
			// The texts are short enough not to be weighed by samples, which are drawn anew each time.
			body: `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat("word after word ", 750)+`"},`, 4) + `{"role":"user","content":"word"}]}`,
			want: "refuse request_too_large request_too_large",
		},
		{
			name: "shadow", config: roomyPool, policy: `  a: {rpm: 1, shadow: true, keys: [KEY(a)]}`,
			before: func(s *explainSite) { s.done("a") },
			want:   "admit",
		},
	} {
		testkit.Virtual(t, tc.name, func(t *testing.T) {
			s := newExplainSite(t, tc.config, tc.policy)
			defer s.calls.Wait()
			if tc.before != nil {
				tc.before(s)
			}
			body := plainCall
			input := s.weighed("a", plainCall)
			if tc.body != "" {
				h, _ := head.Read([]byte(tc.body))
				body = tc.body
				input = h.Prompt.Least()
			}
			who := "&tenant=a"
			if strings.Contains(tc.query, "tenant=") {
				who = ""
			}
			x := s.explain(fmt.Sprintf("model=m&input=%d&output=100%s%s", input, who, tc.query))
			d := x.Decision
			if got := strings.TrimSpace(d.Outcome + " " + d.Code + " " + d.Type); got != tc.want {
				t.Errorf("foretold %q, want %q: %s", got, tc.want, d.Message)
			}
			if got := s.decider(x); got != tc.decider {
				t.Errorf("by %q, want %q", got, tc.decider)
			}
			began := time.Now()
			w := s.call("a", body, append(tc.header, "X-Request-Id", "this-call")...)
			testkit.Same(t, saidBy(d), answered(w), "what was foretold was not answered (-foretold +answered)")
			s.explainedAfterwards(x, answered(w))
			waited := time.Since(began) - s.takes
			if foretold := time.Duration(d.Wait * float64(time.Second)); tc.exact && (waited-foretold).Abs() > time.Second {
				t.Errorf("it waited %v, and not %v", waited, foretold)
			}
		})
	}
}

// explainedAfterwards checks that the same is told of a call after the fact, if it was
// refused, or would have been but for shadow.
func (s *explainSite) explainedAfterwards(foretold *adminapi.Explanation, got said) {
	s.t.Helper()
	past := s.ask("request=this-call")
	if strict := foretold.WithoutShadow; got.Status == http.StatusOK && (strict == nil || strict.Outcome != adminapi.OutcomeRefuse) {
		if past.Code != http.StatusNotFound {
			s.t.Errorf("a call that was admitted is told of as refused: %s", past.Body)
		}
		return
	}
	x := s.explain("request=this-call")
	if got.Status == http.StatusOK {
		x.Decision = x.WithoutShadow
		foretold.Decision = foretold.WithoutShadow
		got = saidBy(foretold.Decision)
	}
	testkit.Same(s.t, got, saidBy(x.Decision), "what was answered is not told afterwards (-answered +told)")
	if got, want := s.decider(x), s.decider(foretold); got != want {
		s.t.Errorf("afterwards it was by %q, not %q", got, want)
	}
	want := foretold.Limits
	if foretold.Decision.Code == ask.CodeTooLarge {
		want = []adminapi.ExplainedLimit{} // the governor was not asked
	}
	if foretold.WithoutShadow == nil { // a shadow counts itself by then
		testkit.Same(s.t, places(want), places(x.Limits), "the limits are not those that were foretold (-foretold +told)")
	}
}

// places is what is the same of limits before and after a call was refused: all but
// what the refusal has changed.
func places(list []adminapi.ExplainedLimit) map[string]float64 {
	out := map[string]float64{}
	for _, l := range list {
		out[l.Of+" "+l.Kind+" "+l.Key+" "+l.From] = *l.Used
	}
	return out
}

// decider is the limit that decides, as "of kind axis from".
func (s *explainSite) decider(x *adminapi.Explanation) string {
	if x.Decision.Limit == nil {
		return ""
	}
	l := x.Limits[*x.Decision.Limit]
	return strings.Join([]string{l.Of, l.Kind, l.Axis, strings.TrimPrefix(l.From, s.dir)}, " ")
}
