package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// moody is a model server that answers in another way while it has a mood.
type moody struct {
	mock  *mock.Server
	mood  atomic.Pointer[http.HandlerFunc]
	calls atomic.Int64
	keys  sync.Map
}

func newMoody(t *testing.T, cfg mock.Config) *moody {
	t.Helper()
	s, err := mock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &moody{mock: s}
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	m.keys.Store(r.Header.Get("Authorization"), true)
	if mood := m.mood.Load(); mood != nil {
		(*mood)(w, r)
		return
	}
	m.mock.ServeHTTP(w, r)
}

func (m *moody) become(mood http.HandlerFunc) {
	if mood == nil {
		m.mood.Store(nil)
		return
	}
	m.mood.Store(&mood)
}

// says answers with a status; header is pairs of names and values.
func says(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"upstream says %d","type":"x","code":"c%d"}}`, status, status)
	}
}

// sleeps does not answer.
func sleeps(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
	<-r.Context().Done()
}

// behind is a pool whose calls go to upstreams with weights, "mock" being the first.
func behind(weights ...int64) tenants.Pool {
	p := pool(0, 0, 1000)
	for i, w := range weights {
		name := "mock"
		if i > 0 {
			name = "up" + strconv.Itoa(i)
		}
		p.Upstreams = append(p.Upstreams, tenants.PoolUpstream{Name: name, Weight: w})
	}
	return p
}

// only is a pool of one upstream.
func only(name string) tenants.Pool {
	p := pool(0, 0, 1000)
	p.Upstreams = []tenants.PoolUpstream{{Name: name, Weight: 1}}
	return p
}

func TestUpstreams_Weights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMoody(t, mock.Config{})
		c := newMoody(t, mock.Config{})
		s := newStack(t, world{pool: behind(5, 3, 2), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": b, "up2": c}})
		defer s.close()
		for i := range 200 {
			if ans := s.call(t.Context(), "a", chat(i%2 == 0, 5, "")); ans.status != 200 {
				t.Fatalf("call %d: %d %s", i, ans.status, ans.body)
			}
		}
		a := s.mock.Stats().Completed
		if b, c := b.calls.Load(), c.calls.Load(); a != 100 || b != 60 || c != 40 {
			t.Errorf("%d, %d and %d of 200 calls went to weights 5, 3 and 2", a, b, c)
		}
		s.checkIdle()
	})
}

// What may be tried elsewhere is, before a byte of it has reached the client, with the
// other upstream's key, and it is charged what it took, once.
func TestUpstreams_FailOver(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		mood  http.HandlerFunc
		class string
		lost  bool // the prompt may have been read
	}{
		"500": {mood: says(500)}, "502": {mood: says(502)}, "503": {mood: says(503)}, "504": {mood: says(504)}, "529": {mood: says(529)},
		"429": {mood: says(429, "Retry-After", "7")}, "401": {mood: says(401)},
		"reset":   {mood: hangUp, class: "broken", lost: true},
		"timeout": {mood: sleeps, class: "timeout", lost: true},
		"refused": {class: "connect"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bad := newMoody(t, mock.Config{})
					others := map[string]http.Handler{"up1": bad}
					if c.mood == nil {
						others["up1"] = nil
					}
					bad.become(c.mood)
					s := newStack(t, world{pool: behind(1, 100), tenants: []tenants.Tenant{tenant("a", 1)}, others: others})
					defer s.close()
					ans := s.call(t.Context(), "a", chat(stream, 50, `,"mock":{"output_tokens":20}`))
					if ans.status != 200 || stream && !strings.HasSuffix(ans.body, "data: [DONE]\n\n") {
						t.Fatalf("got %d %s", ans.status, ans.body)
					}
					class := c.class
					if class == "" {
						class = name
					}
					if n := s.sum("llmgov_upstream_errors_total", map[string]string{"pool": "p", "class": class}); n != 1 {
						t.Errorf("%d errors of class %s", n, class)
					}
					if _, leaked := bad.keys.Load("Bearer upstream-key"); leaked {
						t.Error("an upstream got the key of another")
					}
					st := s.mock.Stats()
					in := s.charged("a", "input")
					out := s.charged("a", "output")
					if !c.lost && (in != st.PromptTokens || out != st.OutputTokens) {
						t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, st.PromptTokens, st.OutputTokens)
					}
					if c.lost && in <= st.PromptTokens {
						t.Errorf("%d input tokens are charged for two prompts of %d", in, st.PromptTokens)
					}
					if n := s.sum("llmgov_requests_total", map[string]string{"tenant": "a"}); n != 1 {
						t.Errorf("it counts as %d requests", n)
					}
					s.checkIdle()
				})
			})
		}
	}
}

// What must not be tried again is not: where the client has seen a part of it, where it
// would be there twice, and what is the caller's own fault.
func TestUpstreams_NoFailOver(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		path, body string
		mood       http.HandlerFunc
		status     int
		says       string
	}{
		"mid-stream":    {body: chat(true, 50, `,"mock":{"hangup_after":3}`), status: 200, says: `"code":"upstream_error"`},
		"own fault":     {body: chat(false, 50, `,"mock":{"error_status":400}`), status: 400},
		"too large":     {body: chat(false, 50, ``), mood: says(429, "X-Should-Retry", "false"), status: 429},
		"makes":         {path: "/v1/batches", body: `{"endpoint":"/v1/chat/completions","completion_window":"24h"}`, mood: says(500), status: 500},
		"kept response": {path: "/v1/responses", body: `{"model":"m","input":"x"}`, mood: hangUp, status: 502},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newMoody(t, mock.Config{})
				second := newMoody(t, mock.Config{})
				first.become(c.mood)
				p := behind(1, 1, 1)
				p.Upstreams = []tenants.PoolUpstream{{Name: "up1", Weight: 100}, {Name: "up2", Weight: 1}}
				who := tenant("a", 1)
				who.Routes = tenants.RouteInference | tenants.RouteBatches
				s := newStack(t, world{pool: p, tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": first, "up2": second}})
				defer s.close()
				path := c.path
				if path == "" {
					path = "/v1/chat/completions"
				}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+path, strings.NewReader(c.body))
				req.Header.Set("Authorization", "Bearer a")
				resp, err := s.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text := readAll(resp)
				if resp.StatusCode != c.status || !strings.Contains(text, c.says) {
					t.Errorf("got %d %s", resp.StatusCode, text)
				}
				if n := second.calls.Load(); n != 0 {
					t.Errorf("the other upstream got %d calls", n)
				}
				s.checkIdle()
			})
		})
	}
}

func readAll(resp *http.Response) string {
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // a stream that breaks off is read to there
	return string(b)
}

// snapshot is GET /api/v1/snapshot.
func (s *stack) snapshot() (v struct {
	Pools []struct {
		RateRatio float64    `json:"rate_ratio"`
		HeldUntil *time.Time `json:"held_until"`
		Upstreams []struct {
			Name, State string
			Until       *time.Time
			TPM         *int64 `json:"declared_tpm"`
		}
	}
},
) {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "http://localhost/api/v1/snapshot", nil)
	s.adminAPI(admin.Options{}).ServeHTTP(rec, req)
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// An upstream that fails is left out after some calls, gets one call at a time when its
// pause is over, and its part of the calls again when that one went well.
func TestUpstreams_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := newMoody(t, mock.Config{})
		p := behind(1, 1)
		p.TPM = 1_000_000
		p.Concurrency = 0
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": bad}})
		defer s.close()
		call := func(n int) {
			t.Helper()
			for range n {
				if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
					t.Fatalf("%d %s", ans.status, ans.body)
				}
			}
		}
		bad.become(says(500))
		call(40)
		if n := bad.calls.Load(); n != 5 {
			t.Fatalf("the upstream that fails got %d of 40 calls, want 5", n)
		}
		if v := s.snapshot().Pools[0]; v.Upstreams[1].State != "open" || v.RateRatio != 0.5 {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(5 * time.Second)
		call(10)
		if n := bad.calls.Load(); n != 6 {
			t.Errorf("after a probe that failed it has %d calls, want 6", n)
		}
		bad.become(nil)
		time.Sleep(9 * time.Second)
		call(10)
		if n := bad.calls.Load(); n != 6 {
			t.Errorf("before a pause of twice the length is over it has %d calls, want 6", n)
		}
		time.Sleep(time.Second)
		call(41)
		if n := bad.calls.Load(); n < 25 || n > 27 {
			t.Errorf("when it works again it has %d calls, want half of 41 more", n)
		}
		if v := s.snapshot().Pools[0]; v.Upstreams[1].State != "up" || v.RateRatio != 1 {
			t.Errorf("the snapshot shows %+v", v)
		}
		s.checkIdle()
	})
}

// Where no upstream answers, callers are told so at once, and when to come back.
func TestUpstreams_NoneAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{pool: only("gone"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"gone": nil}})
		defer s.close()
		for range 5 {
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 502 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
		}
		ans := s.call(t.Context(), "a", chat(false, 5, ""))
		if ans.status != 503 || errorCode(ans.body) != "upstream_error" || ans.header.Get("Retry-After") != "5" {
			t.Errorf("%d %v %s", ans.status, ans.header, ans.body)
		}
		time.Sleep(5 * time.Second)
		if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 502 {
			t.Errorf("the probe is answered %d %s", ans.status, ans.body)
		}
		s.checkIdle()
	})
}

// An upstream that answers, if with errors, is asked for its answer where there is no
// other: nobody can shut a pool by calls that make it fail.
func TestUpstreams_ErrorsShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{pool: pool(0, 0, 100), tenants: []tenants.Tenant{tenant("a", 1), tenant("b", 1)}})
		defer s.close()
		for range 20 {
			if ans := s.call(t.Context(), "a", chat(false, 5, `,"mock":{"error_status":500}`)); ans.status != 500 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
		}
		if ans := s.call(t.Context(), "b", chat(false, 5, "")); ans.status != 200 {
			t.Errorf("%d %s", ans.status, ans.body)
		}
		s.checkIdle()
	})
}

// A provider whose limit is lower than the pool's is not hammered: who may wait waits
// for as long as it says, and is served; who may not gets its answer, with its time.
func TestUpstreams_BusyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := tenant("patient", 1)
		hasty := tenant("hasty", 1)
		patient.MaxWait = 3 * time.Minute
		s := newStack(t, world{mock: mock.Config{RPM: 10}, pool: pool(0, 0, 100), tenants: []tenants.Tenant{patient, hasty}})
		defer s.close()
		var all sync.WaitGroup
		began := time.Now()
		for range 25 {
			all.Go(func() {
				if ans := s.call(t.Context(), "patient", chat(false, 5, "")); ans.status != 200 {
					t.Errorf("%d %s", ans.status, ans.body)
				}
			})
		}
		time.Sleep(time.Second)
		ans := s.call(t.Context(), "hasty", chat(false, 5, ""))
		if ms, _ := strconv.Atoi(ans.header.Get("Retry-After-Ms")); ans.status != 429 || ms < 55_000 || ms > 60_000 || ans.header.Get("Retry-After") == "" {
			t.Errorf("who does not wait: %d %v %s", ans.status, ans.header, ans.body)
		}
		if v := s.snapshot().Pools[0]; v.RateRatio != 0 || v.HeldUntil == nil || v.Upstreams[0].State != "busy" {
			t.Errorf("the snapshot shows %+v", v)
		}
		all.Wait()
		if d := time.Since(began); d < 2*time.Minute || d > 3*time.Minute {
			t.Errorf("25 calls at 10 a minute took %v", d)
		}
		if refused := s.mock.Stats().Refused; refused > 60 {
			t.Errorf("the provider refused %d calls", refused)
		}
		st := s.mock.Stats()
		if in, out := s.charged("", "input"), s.charged("", "output"); in != st.PromptTokens || out != st.OutputTokens {
			t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, st.PromptTokens, st.OutputTokens)
		}
		s.checkIdle()
	})
}

// A 429 that is waited out too long, or is not to be waited for, is passed on with its
// time, as it is said in whatever way.
func TestUpstreams_BusyIsPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		ms     int
	}{
		"seconds": {[]string{"Retry-After", "7"}, 7000},
		"ms":      {[]string{"Retry-After", "1", "Retry-After-Ms", "350"}, 350},
		"reset":   {[]string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1m2s", "X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Reset-Requests", "1h"}, 62_000},
		"nothing": {nil, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": says(429, c.header...)}})
				defer s.close()
				ans := s.call(t.Context(), "a", chat(true, 5, ""))
				if ms, _ := strconv.Atoi(ans.header.Get("Retry-After-Ms")); ans.status != 429 || ms != c.ms || ans.header.Get("Retry-After") == "" || !strings.Contains(ans.body, "upstream says 429") {
					t.Errorf("%d %v %s", ans.status, ans.header, ans.body)
				}
				ans = s.call(t.Context(), "a", chat(true, 5, ""))
				if ms, _ := strconv.Atoi(ans.header.Get("Retry-After-Ms")); ans.status != 429 || ms != c.ms || errorCode(ans.body) != "rate_limit_exceeded" {
					t.Errorf("the next one: %d %v %s", ans.status, ans.header, ans.body)
				}
				s.checkIdle()
			})
		})
	}
}

// When a provider that asked for a pause is back, who waited shares it by weight, not by
// who had more calls refused.
func TestUpstreams_PauseEndsInFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{FirstToken: time.Second})
		up.become(says(429, "Retry-After", "10"))
		many := tenant("many", 1)
		few := tenant("few", 1)
		many.MaxWait = 5 * time.Minute
		few.MaxWait = 5 * time.Minute
		p := only("up1")
		p.Concurrency = 4
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{many, few}, others: map[string]http.Handler{"up1": up}})
		defer s.close()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var served [2]atomic.Int64
		for i, n := range []int{40, 8} {
			for range n {
				all.Go(func() {
					for ctx.Err() == nil {
						if ans := s.call(ctx, []string{"many", "few"}[i], chat(false, 5, "")); ans.status == 200 {
							served[i].Add(1)
						} else if ctx.Err() == nil {
							t.Errorf("%d %s", ans.status, ans.body)
						}
					}
				})
			}
		}
		time.Sleep(5 * time.Second)
		up.become(nil)
		time.Sleep(65 * time.Second)
		stop()
		all.Wait()
		m := served[0].Load()
		f := served[1].Load()
		if m+f < 220 || f < m*9/10 || f > m*11/10 {
			t.Errorf("after the pause %d calls of the one and %d of the other were served", m, f)
		}
		s.checkIdle()
	})
}

// A longer pause that is asked for during a shorter one holds the pool for longer too.
func TestUpstreams_LongerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		var n atomic.Int64
		up.become(func(w http.ResponseWriter, r *http.Request) {
			switch n.Add(1) {
			case 1:
				time.Sleep(100 * time.Millisecond) // until both are there
				says(429, "Retry-After", "1")(w, r)
			case 2:
				time.Sleep(500 * time.Millisecond)
				says(429, "Retry-After", "20")(w, r)
			default:
				up.mock.ServeHTTP(w, r)
			}
		})
		who := tenant("a", 1)
		who.MaxWait = time.Minute
		s := newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": up}})
		defer s.close()
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 || ans.header.Get("X-Llmgov-Queue-Ms") == "" {
					t.Errorf("%d %v %s", ans.status, ans.header, ans.body)
				}
			})
		}
		all.Wait()
		if d := time.Since(began); d != 20500*time.Millisecond || n.Load() != 4 {
			t.Errorf("served after %v and %d tries, want 20.5 s and 4", d, n.Load())
		}
		s.checkIdle()
	})
}

// Of two upstreams one may be busy: its calls go to the other, and the pool hands out
// only what that has.
func TestUpstreams_OneIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := newMoody(t, mock.Config{})
		p := behind(1, 3)
		p.TPM = 1_000_000
		p.Concurrency = 0
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": busy}})
		defer s.close()
		busy.become(says(429, "Retry-After", "20"))
		for range 20 {
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
		}
		if n := busy.calls.Load(); n != 1 {
			t.Errorf("the busy upstream got %d calls", n)
		}
		if v := s.snapshot().Pools[0]; v.RateRatio != 0.25 || v.HeldUntil != nil || v.Upstreams[1].State != "busy" {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if v := s.snapshot().Pools[0]; v.RateRatio != 1 || v.Upstreams[1].State != "up" {
			t.Errorf("20 s later it shows %+v", v)
		}
		s.checkIdle()
	})
}

// A limit that the provider declares lowers the pool's, and goes when it is not said any
// more.
func TestUpstreams_DeclaredLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool(600_000, 0, 0)
		p.HeadroomPPM = 0
		s := newStack(t, world{mock: mock.Config{TPM: 200_000}, pool: p, tenants: []tenants.Tenant{tenant("a", 1)}})
		defer s.close()
		limit := func() int64 { return s.gov.State().Pools[0].Axes[escrow.Tokens].Limit }
		for range 3 {
			s.call(t.Context(), "a", chat(false, 5, ""))
		}
		if limit() != 200_000 {
			t.Errorf("the limit is %d, and the provider declared 200000", limit())
		}
		if v := s.snapshot().Pools[0].Upstreams[0]; v.TPM == nil || *v.TPM != 200_000 {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(4 * time.Minute)
		s.call(t.Context(), "a", chat(false, 5, ""))
		time.Sleep(4 * time.Minute)
		if limit() != 200_000 {
			t.Errorf("four minutes after it was said again the limit is %d", limit())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if limit() != 600_000 {
			t.Errorf("five minutes after it was said last the limit is %d", limit())
		}
		s.checkIdle()
	})
}

// Over a storm of failures what is charged is what was produced, and nothing is held
// when it is over.
func TestUpstreams_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMoody(t, mock.Config{TPM: 60_000, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200, Seed: 2})
		c := newMoody(t, mock.Config{ErrorRate: .2, RPM: 300, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200, Seed: 3})
		patient := tenant("patient", 2)
		hasty := tenant("hasty", 1)
		patient.MaxWait = 20 * time.Second
		p := behind(1, 2, 1)
		p.TPM = 300_000
		p.Concurrency = 64
		s := newStack(t, world{
			mock: mock.Config{ErrorRate: .3, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200},
			pool: p, tenants: []tenants.Tenant{patient, hasty}, others: map[string]http.Handler{"up1": b, "up2": c, "up3": nil},
		})
		defer s.close()
		var all sync.WaitGroup
		var good atomic.Int64
		for i := range 60 {
			all.Go(func() {
				for range 20 {
					ans := s.call(t.Context(), []string{"patient", "hasty"}[i%2], chat(i%3 == 0, 100, ""))
					switch ans.status {
					case 200:
						good.Add(1)
					case 429, 500:
						time.Sleep(time.Second)
					default:
						t.Errorf("%d %s", ans.status, ans.body)
					}
				}
			})
		}
		all.Wait()
		prompt := int64(0)
		output := int64(0)
		for _, m := range []*mock.Server{s.mock, b.mock, c.mock} {
			st := m.Stats()
			prompt = prompt + st.PromptTokens
			output = output + st.OutputTokens
			if st.Running != 0 || st.Queued != 0 {
				t.Errorf("a model server still runs %d", st.Running)
			}
		}
		if in, out := s.charged("", "input"), s.charged("", "output"); in != prompt || out != output {
			t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, prompt, output)
		}
		if good.Load() < 850 { // usually a little above 900; which goroutine goes first decides
			t.Errorf("%d of 1200 calls were served", good.Load())
		}
		t.Logf("%d served", good.Load())
		s.checkIdle()
	})
}

// What an upstream keeps is asked for where it is, and what refers to it goes there; what
// is made anew is made at the first.
func TestUpstreams_ObjectsStayWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMoody(t, mock.Config{Seed: 2})
		who := tenant("a", 1)
		who.Routes = tenants.RouteInference | tenants.RouteResponses | tenants.RouteVectorStores
		s := newStack(t, world{pool: behind(1, 1), tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": b}})
		defer s.close()
		ask := func(method, path, body string) (int, string) {
			t.Helper()
			req, _ := http.NewRequestWithContext(t.Context(), method, "http://gateway/v1"+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer a")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, readAll(resp)
		}
		id := func(body string) string {
			var v struct{ ID string }
			_ = json.Unmarshal([]byte(body), &v)
			return v.ID
		}
		var made []string
		for range 6 {
			status, text := ask("POST", "/responses", `{"model":"m","input":"x","max_output_tokens":3}`)
			if status != 200 {
				t.Fatalf("%d %s", status, text)
			}
			made = append(made, id(text))
		}
		if n := b.calls.Load(); n != 3 {
			t.Fatalf("one of two upstreams made %d of 6 responses", n)
		}
		for _, one := range made {
			if status, text := ask("GET", "/responses/"+one, ""); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		before := b.calls.Load()
		for range 3 { // the second was made there
			if status, text := ask("POST", "/responses", `{"model":"m","input":"x","max_output_tokens":3,"previous_response_id":"`+made[1]+`"}`); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		there := b.calls.Load() - before
		if there != 0 && there != 3 {
			t.Errorf("of 3 calls that refer to a response %d went to one upstream", there)
		}
		before = b.calls.Load()
		for range 3 {
			if status, text := ask("POST", "/vector_stores", `{"name":"x"}`); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		if status, text := ask("GET", "/vector_stores", ""); status != 200 || strings.Count(text, `"vector_store"`) != 3 || b.calls.Load() != before {
			t.Errorf("of 3 vector stores the list has %d %s", status, text)
		}
		s.checkIdle()
	})
}

// Upstreams and their weights change while calls run.
func TestUpstreams_Reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMoody(t, mock.Config{})
		w := world{pool: only("mock"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": b}}
		s := newStack(t, w)
		defer s.close()
		for _, c := range []struct {
			pool  tenants.Pool
			there int64 // of 8 calls
		}{{only("mock"), 0}, {behind(1, 1), 4}, {behind(1, 3), 6}, {only("up1"), 8}} {
			w.pool = c.pool
			snap, err := tenants.Build(w.config(), w.tenants)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.gateway.Apply(snap); err != nil {
				t.Fatal(err)
			}
			before := b.calls.Load()
			for range 8 {
				if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
					t.Fatalf("%d %s", ans.status, ans.body)
				}
			}
			if n := b.calls.Load() - before; n != c.there {
				t.Errorf("of 8 calls %d went there, want %d", n, c.there)
			}
		}
		s.checkIdle()
	})
}
