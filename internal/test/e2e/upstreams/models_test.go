package upstreams

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
	"github.com/tidwall/gjson"
)

// lister is an upstream that lists models.
type lister struct {
	mu    sync.Mutex
	says  shown
	asked int
	as    string // with which key, and where
}

// shown is what it answers, after a while.
type shown struct {
	late   time.Duration
	status int
	body   string // "" is a list of names
	names  []string
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asked++
	l.as = r.Header.Get("Authorization") + r.URL.Path
	says := l.says
	l.mu.Unlock()
	select {
	case <-time.After(says.late):
	case <-r.Context().Done():
		return
	}
	if says.status != 0 {
		w.WriteHeader(says.status)
	}
	if says.body != "" {
		fmt.Fprint(w, says.body)
		return
	}
	var list []string
	for _, n := range says.names {
		list = append(list, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"org-of-the-account"}`, n))
	}
	fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(list, ","))
}

// now changes what it answers.
func (l *lister) now(says shown) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.says = says
}

// calls is how often it was asked, and how.
func (l *lister) calls() (n int, as string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.as
}

// listing is a stack whose pool is served by listers, and a tenant for each of some grants.
func listing(t *testing.T, models []string, listers map[string]*lister, grants map[string][]string) *harness.Stack {
	p := harness.Pool(1000, 0, 0)
	p.Models = models
	p.Upstreams = nil
	w := harness.World{Upstreams: map[string]http.Handler{}}
	for name, l := range listers {
		w.Upstreams[name] = l
		p.Upstreams = append(p.Upstreams, tenants.PoolUpstream{Name: name, Weight: 1})
	}
	w.Pool = p
	for name, models := range grants {
		one := harness.Tenant(name, 1)
		one.Models = models
		w.Tenants = append(w.Tenants, one)
	}
	return harness.New(t, w)
}

// models are the names that a tenant is told.
func models(s *harness.Stack, key string) []string {
	s.T.Helper()
	a := s.Get("/v1/models", key)
	var list struct {
		Object string
		Data   []struct{ ID, Object, Owned_By string }
	}
	if err := json.Unmarshal([]byte(a.Body), &list); err != nil || a.Status != http.StatusOK || list.Object != "list" {
		s.T.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	names := []string{}
	for _, m := range list.Data {
		if m.Object != "model" || m.Owned_By != "p" {
			s.T.Errorf("it lists %+v", m)
		}
		names = append(names, m.ID)
	}
	return names
}

func wantModels(s *harness.Stack, key string, want ...string) {
	s.T.Helper()
	testkit.Same(s.T, append([]string{}, want...), models(s, key), "the models of", key)
}

// A pool's patterns are listed by the names that its upstreams know, as far as a tenant may use them.
func TestModels_OfPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listers := map[string]*lister{
			"one": {says: shown{names: []string{"gpt-4o", "o3", "gpt-4o-mini", "ft:gpt-4o:org::somebodys", "", strings.Repeat("gpt-4o", 50)}}},
			"two": {says: shown{body: `[{"id":"gpt-4o-2024"},{"id":"gpt-4o"},{"id":7},"gpt-4o-text"]`}},
		}
		s := listing(t, []string{"named", "gpt-4o*", "ft:*"}, listers, map[string][]string{
			"all": {"*"}, "some": {"gpt-4o-*", "gpt-4o-by-name"}, "one": {"named"},
		})
		wantModels(s, "all", "gpt-4o", "gpt-4o-2024", "gpt-4o-mini", "named")
		wantModels(s, "some", "gpt-4o-2024", "gpt-4o-by-name", "gpt-4o-mini")
		wantModels(s, "one", "named")
		if _, got := listers["one"].calls(); got != "Bearer key-of-one/v1/models" {
			t.Errorf("it was asked as %q", got)
		}
		for path, want := range map[string]int{"gpt-4o-mini": 200, "named": 200, "gpt-4o-unlisted": 200, "o3": 404} {
			if a := s.Get("/v1/models/"+path, "all"); a.Status != want {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	})
}

// A list is kept for five minutes, asked for by one caller for all, and outlives an upstream that
// fails.
func TestModels_Kept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{says: shown{names: []string{"a"}, late: time.Second}}
		s := listing(t, []string{"*"}, map[string]*lister{"one": l}, map[string][]string{"all": {"*"}})
		asked := func(want int) {
			t.Helper()
			if got, _ := l.calls(); got != want {
				t.Errorf("it was asked %d times, want %d", got, want)
			}
		}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { wantModels(s, "all", "a") })
		}
		group.Wait()
		asked(1)
		time.Sleep(5*time.Minute - 2*time.Second)
		l.now(shown{names: []string{"a", "b"}, late: time.Second})
		wantModels(s, "all", "a")
		asked(1)

		time.Sleep(2 * time.Second)
		began := time.Now()
		wantModels(s, "all", "a") // while it is asked
		if time.Since(began) > 0 {
			t.Errorf("it took %s", time.Since(began))
		}
		time.Sleep(2 * time.Second)
		wantModels(s, "all", "a", "b")
		asked(2)

		l.now(shown{status: http.StatusInternalServerError})
		for range 3 {
			time.Sleep(5 * time.Minute)
			wantModels(s, "all", "a", "b")
		}
		time.Sleep(2 * time.Second)
		asked(5)
	})
}

// An upstream that does not tell holds up nobody for long, and hides nothing.
func TestModels_NotTold(t *testing.T) {
	for name, says := range map[string]shown{
		"hangs":     {late: time.Hour},
		"fails":     {status: http.StatusUnauthorized, names: []string{"a"}},
		"no list":   {body: `{"models":[]}`},
		"no JSON":   {body: `<html>{"data":[{"id":"a"}]}`},
		"too large": {body: `{"data":[{"id":"a"}],"x":"` + strings.Repeat("x", 9<<20) + `"}`},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			l := &lister{says: says}
			s := listing(t, []string{"*", "named"}, map[string]*lister{"one": l, "two": {says: shown{names: []string{"b"}}}}, map[string][]string{"all": {"*"}})
			for _, atMost := range []time.Duration{2 * time.Second, 0} {
				began := time.Now()
				wantModels(s, "all", "b", "named")
				if took := time.Since(began); took > atMost {
					t.Errorf("it took %s, at most %s", took, atMost)
				}
			}
			time.Sleep(15 * time.Second) // of a question, 10
			l.now(shown{names: []string{"late"}})
			wantModels(s, "all", "b", "named")
			if n, _ := l.calls(); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
			time.Sleep(time.Minute)
			wantModels(s, "all", "b", "late", "named")
		})
	}
}

// Who asks all the time for what the gateway knows itself is told to wait, and its limits are left alone.
func TestLookups_TooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := harness.Tenant("a", 1)
		other := harness.Tenant("b", 1)
		one.RPM = 1
		s := harness.New(t, harness.World{Mock: mock.Config{Models: []string{"m"}}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{one, other}})
		for i := range 50 {
			s.Get([]string{"/v1/models", "/v1/usage"}[i%2], "a").WantOK(t, i)
		}
		for _, path := range []string{"/v1/models", "/v1/models/m", "/v1/usage"} {
			a := s.Get(path, "a")
			if a.Status != http.StatusTooManyRequests || !strings.Contains(a.Body, `"type":"requests","param":null,"code":"rate_limit_exceeded"`) || a.Header.Get("retry-after-ms") != "100" {
				t.Errorf("%d %s %v", a.Status, a.Body, a.Header)
			}
		}
		wantModels(s, "b", "m")
		time.Sleep(100 * time.Millisecond)
		wantModels(s, "a", "m")
		s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t, "a call")
	})
}

// A call costs what the upstream that served it takes, in budgets and in the log: nothing where capacity is provisioned, the price of
// the upstream on demand there, and that of the model at one that has no price. Before, it is held at the dearest.
func TestUpstreams_Prices(t *testing.T) {
	for name, limits := range map[string][3]int64{"with limits of their own": {1, 1, 1}, "without": {}} {
		testkit.Virtual(t, name, func(t *testing.T) {
			p := harness.Pool(0, 0, 1000)
			handlers := map[string]http.Handler{}
			ups := map[string]*harness.Upstream{}
			list := []tenants.PoolUpstream{{Name: "ptu", Price: &tenants.Price{}}, {Name: "paid", Price: &tenants.Price{Input: 4e6, CachedInput: 4e6, Output: 8e6}}, {Name: "usual"}}
			for i, u := range list {
				u.Weight = 1
				u.Order = int64(i)
				u.Concurrency = limits[i]
				p.Upstreams = append(p.Upstreams, u)
				ups[u.Name] = harness.NewUpstream(t, mock.Config{})
				handlers[u.Name] = ups[u.Name]
			}
			who := harness.Tenant("a", 1)
			who.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 1e9, Per: tenants.Day}}
			s := harness.New(t, harness.World{
				Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: handlers,
				Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1e6, CachedInput: 1e6, Output: 2e6}}},
			})
			spent := func() int64 { return s.Governor.State().Tenants[0].Budgets[0].Used }
			account := map[string]telemetry.Taken{} // by upstream
			s.Metrics.SpendTo(func(tenant string, took telemetry.Taken) {
				sum := account[took.Upstream]
				sum.Calls += took.Calls
				sum.MicroUSD += took.MicroUSD
				account[took.Upstream] = sum
			})
			answer := make(chan struct{})
			ups["ptu"].AnswerWith(func(rw http.ResponseWriter, r *http.Request) {
				<-answer
				ups["ptu"].Mock.ServeHTTP(rw, r)
			})
			go s.Call(t.Context(), "a", harness.Chat(false, 500, ""))
			synctest.Wait()
			if held := spent(); held < 500*8 {
				t.Errorf("a call is held at %d millionths of a dollar, want %d at least, as at the dearest", held, 500*8)
			}
			close(answer)
			time.Sleep(time.Minute)
			for _, tt := range []struct {
				served        string
				input, output int64
			}{{"ptu", 0, 0}, {"paid", 4, 8}, {"usual", 1, 2}} {
				before := spent()
				counted := account[tt.served]
				ans := s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
				input := gjson.Get(ans.Body, "usage.prompt_tokens").Int()
				output := gjson.Get(ans.Body, "usage.completion_tokens").Int()
				if cost := spent() - before; ans.Status != 200 || output == 0 || cost != input*tt.input+output*tt.output {
					t.Errorf("%s: %d, %d and %d tokens cost %d millionths of a dollar, want %d and %d each", tt.served, ans.Status, input, output, cost, tt.input, tt.output)
				}
				if now := account[tt.served]; now.Calls != counted.Calls+1 || now.MicroUSD != counted.MicroUSD+input*tt.input+output*tt.output {
					t.Errorf("%s: the account of spend had %+v before the call, and has %+v", tt.served, counted, now)
				}
				ups[tt.served].AnswerWith(harness.Status(http.StatusInternalServerError))
			}
		})
	}
}

// A stream that is cancelled before its first delta is charged what may have been produced by then.
func TestAudit_L2_CancelledBeforeTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Mock: mock.Config{TokensPerSecond: 40}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		s.Call(t.Context(), "a", harness.Chat(true, 400, "")) // 40 tokens a second is learned
		before := s.Charged("a", "output")
		for name, tt := range map[string]struct {
			after time.Duration
			most  int
			want  int64
		}{
			"soon":  {2500 * time.Millisecond, 4000, 100},
			"bound": {90 * time.Second, 1000, 1000},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.after)
			if ans := s.Call(ctx, "a", harness.Chat(true, tt.most, `,"mock":{"first_token_ms":100000}`)); ans.Err == nil {
				t.Errorf("%s: answered with %d %s", name, ans.Status, ans.Body)
			}
			cancel()
			synctest.Wait()
			took := s.Charged("a", "output") - before
			before += took
			if took < tt.want || took > tt.want+10 {
				t.Errorf("%s: %d tokens are charged, want %d", name, took, tt.want)
			}
		}
	})
}

// A call that ends while the beginning of its stream is kept back, because another upstream might have it, is no failure of its upstream, goes
// nowhere else and is charged what may have been produced.
func TestUpstreams_EndsBehindARole(t *testing.T) {
	role := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, c := range map[string]struct {
		idle, patience time.Duration
		outcome        string
	}{
		"left":   {time.Minute, 3 * time.Second, "cancelled"},
		"silent": {3 * time.Second, time.Minute, "failed"},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			first := harness.NewUpstream(t, mock.Config{})
			second := harness.NewUpstream(t, mock.Config{})
			first.AnswerWith(role)
			p := harness.PoolOf(1, 1, 1)
			p.Upstreams = []tenants.PoolUpstream{{Name: "up1", Weight: 100}, {Name: "up2", Weight: 1}}
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": first, "up2": second}, StreamIdle: c.idle})
			ctx, leave := context.WithTimeout(t.Context(), c.patience)
			defer leave()
			ans := s.Call(ctx, "a", harness.Chat(true, 50, ""))
			synctest.Wait()
			if (ans.Err != nil) != (name == "left") || name == "silent" && (ans.Status != 200 || !strings.Contains(ans.Body, "sent nothing for too long")) {
				t.Errorf("got %d %s, %v", ans.Status, ans.Body, ans.Err)
			}
			if n := s.Sum("llmgov_requests_total", map[string]string{"outcome": c.outcome}); n != 1 || second.Calls.Load() != 0 {
				t.Errorf("%d calls %s, and the other upstream got %d", n, c.outcome, second.Calls.Load())
			}
			if n := s.Sum("llmgov_upstream_errors_total", map[string]string{"class": "unreadable"}); n != 0 || s.Charged("a", "input") == 0 {
				t.Errorf("%d errors of the upstream, %d tokens of the prompt are charged", n, s.Charged("a", "input"))
			}
		})
	}
}

// A stream that the upstream ends before its first delta is charged its prompt.
func TestAudit_L2_OutagesAreFree(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})})
	s.Post("/v1/chat/completions", sockets.Chat(`,"stream":true`))
	s.WaitIdle()
	if took := s.Charged("output"); took != 0 {
		t.Errorf("%d tokens are charged", took)
	}
}
