package upstreams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// limitedWorld is a pool of 200k tokens a minute provisioned and 600k on demand, each with its limit, and three tenants: of
// weights 3 and 1, and one that may only use what is provisioned.
type limitedWorld struct {
	*harness.Stack
	harness.World
	provisioned, onDemand *harness.Upstream

	mu   sync.Mutex
	seen map[int]int
	got  map[string]int64
}

func newLimitedWorld(t *testing.T) *limitedWorld {
	w := &limitedWorld{seen: map[int]int{}, got: map[string]int64{}}
	w.provisioned = harness.NewUpstream(t, mock.Config{TPM: 200_000})
	w.onDemand = harness.NewUpstream(t, mock.Config{TPM: 600_000})
	p := harness.Pool(0, 0, 0)
	p.HeadroomPPM = 0
	p.Upstreams = []tenants.PoolUpstream{{Name: "paid", Weight: 3, Order: 1, Limits: terms.Limits{TPM: 600_000}}, {Name: "ptu", Weight: 1, Limits: terms.Limits{TPM: 200_000}}}
	var who []tenants.Tenant
	for _, name := range []string{"big", "small", "only"} {
		who = append(who, harness.Tenant(name, 1))
		who[len(who)-1].MaxWait = 10 * time.Minute
	}
	who[0].Weight = 3
	who[2].Upstreams = []string{"ptu"}
	w.World = harness.World{Pool: p, Tenants: who, Upstreams: map[string]http.Handler{"ptu": w.provisioned, "paid": w.onDemand}}
	w.Stack = harness.New(t, w.World)
	return w
}

// run has callers of tenants call all the time.
func (w *limitedWorld) run(t *testing.T, d time.Duration, tenants ...string) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 900) + `"}],"max_tokens":100,"mock":{"output_tokens":100}}`
	end := time.Now().Add(d)
	var callers sync.WaitGroup
	for _, tenant := range tenants {
		for range 20 {
			callers.Go(func() {
				for time.Now().Before(end) {
					status := w.Call(t.Context(), tenant, body).Status
					w.mu.Lock()
					w.seen[status]++
					w.got[tenant]++
					w.mu.Unlock()
				}
			})
		}
	}
	callers.Wait()
}

// used is the part of a limit that an upstream has served in so many minutes.
func used(u *harness.Upstream, tpm, minutes int) float64 {
	st := u.Mock.Stats()
	return float64(st.TokensProduced) / float64(tpm*minutes)
}

// Upstreams with limits of their own refuse nobody, the first is used whole before the next is touched, and shares are by weight
// over both.
func TestUpstreams_LimitsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		const minutes = 4
		w.run(t, minutes*time.Minute, "big", "small")
		first := used(w.provisioned, 200_000, minutes)
		spare := used(w.onDemand, 600_000, minutes)
		t.Logf("used %.3f of what is provisioned, %.3f on demand; %v", first, spare, w.got)
		if first < .99 || spare < .98 {
			t.Errorf("of what is provisioned %.3f are used, and %.3f on demand", first, spare)
		}
		if n := w.provisioned.Mock.Stats().Refused + w.onDemand.Mock.Stats().Refused; n > 0 || len(w.seen) != 1 || w.seen[http.StatusOK] == 0 {
			t.Errorf("upstreams refused %d calls, callers saw %v", n, w.seen)
		}
		if ratio := float64(w.got["big"]) / float64(w.got["small"]); ratio < 2.85 || ratio > 3.15 {
			t.Errorf("calls %v: ratio %.2f, want 3", w.got, ratio)
		}
	})
}

// When one upstream is lost, calls go to the other within its limit, and back when it works again.
func TestUpstreams_OneLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		w.run(t, time.Minute, "big", "small")
		w.provisioned.AnswerWith(harness.Status(http.StatusInternalServerError))
		before := w.onDemand.Mock.Stats()
		minutes := testkit.Rounds(1, 3)
		w.run(t, time.Duration(minutes)*time.Minute, "big", "small")
		after := w.onDemand.Mock.Stats()
		if part := float64(after.TokensProduced-before.TokensProduced) / (600_000 * float64(minutes)); part < .97 {
			t.Errorf("the other one is used to %.3f", part)
		}
		w.provisioned.AnswerWith(nil)
		w.run(t, 2*time.Minute, "big", "small") // it is probed once a minute
		idle := w.provisioned.Mock.Stats()
		w.run(t, time.Duration(minutes)*time.Minute, "big", "small")
		again := w.provisioned.Mock.Stats()
		if part := float64(again.TokensProduced-idle.TokensProduced) / (200_000 * float64(minutes)); part < .95 {
			t.Errorf("the one that is back is used to %.3f", part)
		}
		if n := again.Refused + w.onDemand.Mock.Stats().Refused; n > 0 {
			t.Errorf("upstreams refused %d calls, callers saw %v", n, w.seen)
		}
		t.Logf("callers saw %v", w.seen)
	})
}

// A call that began before its pool's upstreams stood in another order goes on at the other one, not at the same again.
func TestUpstreams_LimitsReordered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		time.Sleep(time.Minute)
		reordered := make(chan struct{})
		w.provisioned.AnswerWith(func(rw http.ResponseWriter, _ *http.Request) {
			<-reordered
			rw.WriteHeader(http.StatusInternalServerError)
		})
		status := make(chan int, 1)
		go func() { status <- w.Call(t.Context(), "big", harness.Chat(false, 5, "")).Status }()
		synctest.Wait()
		slices.Reverse(w.Pool.Upstreams)
		snap := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
		w.Apply(snap)
		close(reordered)
		if got := <-status; got != http.StatusOK || w.provisioned.Calls.Load() != 1 || w.onDemand.Calls.Load() != 1 {
			t.Errorf("status %d after %d calls of one and %d of the other, want 200, 1 and 1", got, w.provisioned.Calls.Load(), w.onDemand.Calls.Load())
		}
	})
}

// A call that waits while all upstreams that it may use are replaced goes where it is counted then: at a new one, not at one that has left.
func TestUpstreams_LimitsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		w.Pool.Concurrency = 10
		list := w.Tenants[:2] // not the one that may only use what leaves
		put := func(upstream string) {
			w.Pool.Upstreams = []tenants.PoolUpstream{{Name: upstream, Weight: 1, Limits: terms.Limits{Concurrency: 1}}}
			snap := testkit.Must(tenants.Build(w.Config(), list))(t)
			w.Apply(snap)
		}
		put("ptu")
		time.Sleep(time.Minute)
		replaced := make(chan struct{})
		w.provisioned.AnswerWith(func(rw http.ResponseWriter, r *http.Request) {
			<-replaced
			w.provisioned.Mock.ServeHTTP(rw, r)
		})
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				w.Call(t.Context(), "big", harness.Chat(false, 5, "")).WantOK(t)
			})
		}
		synctest.Wait()
		put("paid")
		synctest.Wait()
		if old, now := w.provisioned.Calls.Load(), w.onDemand.Calls.Load(); old != 1 || now != 1 {
			t.Errorf("%d calls are at the upstream that has left, and %d at the new one, want 1 and 1", old, now)
		}
		close(replaced)
		callers.Wait()
	})
}

// A call that is larger than what is provisioned has in a minute goes to what is on demand. A tenant that may not go there is told at
// once that its prompt is too large.
func TestUpstreams_LimitsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		time.Sleep(time.Minute)
		w.Pool.Upstreams[1].TPM = 20_000
		snap := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
		w.Apply(snap)
		began := time.Now()
		prompt := strings.Repeat("word ", 200_000)
		body := `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}],"max_tokens":5}`
		if ans := w.Call(t.Context(), "big", body); ans.Status != http.StatusOK || w.provisioned.Calls.Load() != 0 || w.onDemand.Calls.Load() != 1 {
			t.Errorf("status %d after %d calls of the one and %d of the other, want 200, 0 and 1: %s",
				ans.Status, w.provisioned.Calls.Load(), w.onDemand.Calls.Load(), ans.Body)
		}
		ans := w.Call(t.Context(), "only", body)
		const why = "more than any upstream of pool p to which it may go has in a minute (20000)"
		if ans.Status != http.StatusRequestEntityTooLarge || !strings.Contains(ans.Body, why) || time.Since(began) > time.Minute {
			t.Errorf("status %d after %v: %s", ans.Status, time.Since(began), ans.Body)
		}
	})
}

// A tenant that may only use one upstream waits while this has asked for a pause.
func TestUpstreams_OnlyOnePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedWorld(t)
		time.Sleep(time.Minute)
		began := time.Now()
		w.provisioned.AnswerWith(func(rw http.ResponseWriter, _ *http.Request) {
			w.provisioned.AnswerWith(nil)
			rw.Header().Set("Retry-After", "5")
			rw.WriteHeader(http.StatusTooManyRequests)
		})
		ans := w.Call(t.Context(), "only", harness.Chat(false, 5, ""))
		if waited := time.Since(began); ans.Status != http.StatusOK || waited < 5*time.Second {
			t.Errorf("status %d after %v, want 200 after 5s: %s", ans.Status, waited, ans.Body)
		}
		if n := w.onDemand.Calls.Load(); n > 0 {
			t.Errorf("%d calls went where the tenant may not go", n)
		}
	})
}

// With 200k tokens a minute provisioned and 600k on demand, callers that want more than both together see no refusal of
// either. What is provisioned is used whole, and refuses a call or two a minute, which go on to the other.
func TestUpstreams_SpillsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provisioned := harness.NewUpstream(t, mock.Config{TPM: 200_000})
		onDemand := harness.NewUpstream(t, mock.Config{TPM: 600_000})
		p := harness.Pool(800_000, 0, 0)
		p.Upstreams = []tenants.PoolUpstream{{Name: "ptu", Weight: 1}, {Name: "paid", Weight: 3, Order: 1}}
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"ptu": provisioned, "paid": onDemand}})
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1900) + `"}],"max_tokens":100,"mock":{"output_tokens":100}}`
		const minutes = 3
		end := time.Now().Add(minutes * time.Minute)
		var mu sync.Mutex
		seen := map[int]int{}
		testkit.AtOnce(40, func(_ int) {
			for time.Now().Before(end) {
				status := s.Call(t.Context(), "a", body).Status
				mu.Lock()
				seen[status]++
				mu.Unlock()
			}
		})
		used := func(u *harness.Upstream, tpm float64) float64 {
			st := u.Mock.Stats()
			return float64(st.TokensProduced) / (tpm * minutes)
		}
		first := used(provisioned, 200_000)
		spare := used(onDemand, 600_000)
		refused := provisioned.Mock.Stats().Refused
		t.Logf("of what is provisioned %.0f %% are used, with %d refusals, and %.0f %% on demand", first*100, refused, spare*100)
		if len(seen) != 1 || seen[http.StatusOK] == 0 {
			t.Errorf("callers saw %v", seen)
		}
		if first < .99 || spare < .65 {
			t.Errorf("of what is provisioned %.2f are used, and %.2f on demand, want .99 and .65", first, spare)
		}
		if n := onDemand.Mock.Stats().Refused; refused == 0 || refused > 4*minutes || n > 0 {
			t.Errorf("what is provisioned refused %d calls in %d minutes, and %d were refused on demand", refused, minutes, n)
		}
	})
}

// A call that Azure has passed on to another deployment is counted where it ran, if that is one of the pool's upstreams, and has room.
func TestUpstreams_PassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		deployment, kind, key string
		room                  int64
		want                  string
	}{
		"to another of the pool's":      {"m-payg", tenants.Azure, "key", 1000, "paid"},
		"to none of the pool's":         {"m-other", tenants.Azure, "key", 1000, "ptu"},
		"to one with another key":       {"m-payg", tenants.Azure, "another", 1000, "ptu"},
		"to one without room":           {"m-payg", tenants.Azure, "key", 10, "ptu"},
		"by whom nobody expects it of":  {"m-payg", tenants.OpenAI, "key", 1000, "ptu"},
		"not passed on, but with names": {"", tenants.Azure, "key", 1000, "ptu"},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			p := harness.Pool(0, 0, 0)
			p.Upstreams = []tenants.PoolUpstream{
				{Name: "ptu", Weight: 1, Limits: terms.Limits{TPM: 1000}, Models: map[string]string{"m": "m-ptu"}},
				{Name: "paid", Weight: 1, Order: 1, Limits: terms.Limits{TPM: c.room}, Models: map[string]string{"m": "m-payg"}},
			}
			provider := testkit.Must(mock.New(mock.Config{}))(t)
			s := harness.New(t, harness.World{
				Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)},
				Upstreams: map[string]http.Handler{"azure": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if w.Header().Set("X-Ms-Deployment-Name", "m-payg"); c.deployment != "" {
						w.Header().Set("X-Ms-Spillover-From-Deployment", "m-ptu")
						w.Header().Set("X-Ms-Deployment-Name", c.deployment)
					}
					r.URL.Path = strings.TrimPrefix(r.URL.Path, "/openai")
					provider.ServeHTTP(w, r)
				})},
				Tune: func(cfg *tenants.Config) {
					for _, name := range []string{"ptu", "paid"} {
						cfg.Upstreams = append(cfg.Upstreams, tenants.Upstream{Name: name, BaseURL: "http://azure/" + map[string]string{tenants.OpenAI: "v1"}[c.kind], Kind: c.kind, APIKey: "key"})
					}
					cfg.Upstreams[3].APIKey = c.key
				},
			})
			time.Sleep(time.Minute)
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != http.StatusOK {
				t.Fatalf("status %d: %s", ans.Status, ans.Body)
			}
			for _, u := range s.Governor.Upstreams("p") {
				if there := u.Name == c.want; there != (u.Calls == 1) || there != (u.Used.Minute[terms.Tokens] > 0) {
					t.Errorf("%d calls and %d tokens are counted at %s, where they should be at %s", u.Calls, u.Used.Minute[terms.Tokens], u.Name, c.want)
				}
			}
		})
	}
}

// The decision log names the upstream of each call whose pool's upstreams have limits, and what it costs; decided again, everything comes
// out as it was: where calls went, moved and waited, and when a budget in money was spent.
func TestUpstreams_Replayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(0, 0, 0)
		p.Upstreams = []tenants.PoolUpstream{
			{Name: "ptu", Weight: 1, Limits: terms.Limits{TPM: 20_000, Concurrency: 3}, Price: &tenants.Price{}},
			{Name: "paid", Weight: 1, Order: 1, Limits: terms.Limits{TPM: 60_000, Concurrency: 4}},
			{Name: "other", Weight: 1, Order: 1, Limits: terms.Limits{TPM: 60_000, Concurrency: 4}},
		}
		var who []tenants.Tenant
		for _, name := range []string{"all", "only", "poor"} {
			who = append(who, harness.Tenant(name, 1))
			who[len(who)-1].MaxWait = 20 * time.Second
		}
		who[1].Upstreams = []string{"ptu"}
		who[2].Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 20_000, Per: tenants.Day}}
		handlers := map[string]http.Handler{}
		for _, u := range p.Upstreams {
			handlers[u.Name] = harness.NewUpstream(t, mock.Config{ErrorRate: 0.05, FirstToken: 300 * time.Millisecond, TokensPerSecond: 200})
		}
		w := harness.World{
			Pool: p, Tenants: who, Upstreams: handlers,
			Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1e6, CachedInput: 1e6, Output: 2e6}}},
		}
		log := w.Record(t)
		s := harness.New(t, w)
		testkit.AtOnce(12, func(i int) {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range 20 {
				s.Call(t.Context(), who[i%3].Name, harness.Chat(r.IntN(2) == 0, 100+r.IntN(1500), ""), "x-llmgov-session", fmt.Sprint(r.IntN(5)))
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
		})
		record := log.End(s)
		at := map[string]int{}
		outcomes := map[plan.Outcome]int{}
		for _, c := range record.Runs[0].Calls {
			at[c.Upstream]++
			outcomes[c.Decided.Outcome]++
		}
		moved := 0
		for line, err := range decisions.Read(decisions.Files(log.Path)) {
			if err == nil && line.Kind == decisions.Moved {
				moved++
			}
		}
		t.Logf("calls by upstream: %v, %v, %d moved", at, outcomes, moved)
		if at["ptu"] == 0 || at["paid"] == 0 || at["other"] == 0 || at[""] != outcomes[plan.Refused] || moved == 0 {
			t.Errorf("calls by upstream: %v, of %v, %d moved", at, outcomes, moved)
		}
		report := harness.DecidedAgain(t, record, s.Gateway.Snapshot())
		if !report.Exact || len(report.Flips) > 0 {
			t.Errorf("of %d calls %d come out otherwise, and %d by the same policy", report.Calls, report.Differ, len(report.Flips))
		}
	})
}

// A provider that limits input and output apart refuses nobody, whether the limits are the pool's or its upstreams'. Tenants with long
// prompts, long answers and both have dominant shares by weight, the tighter limit is used up, and headers show both.
func TestUpstreams_InputAndOutputApart(t *testing.T) {
	t.Run("of the pool", func(t *testing.T) { runApart(t, false, .99) })
	if !testing.Short() {
		t.Run("of its upstreams", func(t *testing.T) { runApart(t, true, .97) }) // a call that has ended counts a whole minute more
	}
}

// Bedrock counts the most that a call may produce once, and then what it produced five times, and no cached input. It refuses nobody, and
// serves more if as much is held, and not five times as much.
func TestUpstreams_OutputHeldOnce(t *testing.T) {
	const bound, usual = 8000, 200 // of output tokens
	five := runBedrock(t, 0, bound, usual)
	once := runBedrock(t, 1, bound, usual)
	t.Logf("%d and %d calls are served", five, once)
	if float64(once) < 1.4*float64(five) {
		t.Errorf("%d calls are served if all output is held once, and %d if it is held five times", once, five)
	}
	runBedrock(t, 1, 2200, 2000) // nearly as much as they may, so that more has to be held
}

// runBedrock is how many calls are served in two minutes, with the weight of what is held.
func runBedrock(t *testing.T, held float64, bound, output int) (served int64) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(600_000, 0, 0)
		p.HeadroomPPM = 0
		p.Upstreams = []tenants.PoolUpstream{{Name: "first"}}
		p.Weights = tenants.TokenWeights{Input: 1, Output: 5, Reasoning: 5, Audio: 1, HeldOutput: held}
		server := harness.NewUpstream(t, mock.Config{TPM: 600_000, Accounting: mock.Bedrock, PrefixCache: 100_000, TokensPerSecond: 100})
		who := []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)}
		who[0].MaxWait = time.Hour
		who[1].MaxWait = time.Hour
		s := harness.New(t, harness.World{Pool: p, Tenants: who, Upstreams: map[string]http.Handler{"first": server}})
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":%d,"mock":{"output_tokens":%d}}`, strings.Repeat("word ", 800), bound, output)
		var callers sync.WaitGroup
		began := time.Now()
		for i := range 160 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / 8)
				for time.Since(began) < 4*time.Minute {
					s.Call(t.Context(), who[i%2].Name, body).WantOK(t)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		before := server.Mock.Stats()
		time.Sleep(2 * time.Minute)
		after := server.Mock.Stats()
		callers.Wait()
		served = after.Completed - before.Completed
		if after.Refused > 0 || after.WindowTokensPeak > 600_000 || after.CachedTokens == 0 {
			t.Errorf("holding %v of %d: %d calls were refused, %d tokens were used in a minute, and %d cached", held, bound, after.Refused, after.WindowTokensPeak, after.CachedTokens)
		}
	})
	return served
}

func runApart(t *testing.T, each bool, least float64) {
	synctest.Test(t, func(t *testing.T) {
		const itpm, otpm, minutes = 800_000, 240_000, 2
		p := harness.Pool(0, 0, 0)
		p.HeadroomPPM = 0
		p.Accounting = tenants.Production
		server := mock.Config{ITPM: itpm, OTPM: otpm, TokensPerSecond: 100}
		if each {
			server.ITPM = itpm / 2
			server.OTPM = otpm / 2
			for _, name := range []string{"first", "second"} {
				p.Upstreams = append(p.Upstreams, tenants.PoolUpstream{Name: name, Weight: 1, Limits: terms.Limits{ITPM: itpm / 2, OTPM: otpm / 2}})
			}
		} else {
			p.ITPM = itpm
			p.OTPM = otpm
			p.Upstreams = []tenants.PoolUpstream{{Name: "first"}}
		}
		servers := []*harness.Upstream{harness.NewUpstream(t, server), harness.NewUpstream(t, server)}
		var who []tenants.Tenant
		for i, weight := range []int64{4, 2, 1} {
			who = append(who, harness.Tenant(fmt.Sprint(i), weight))
			who[i].MaxWait = time.Hour
		}
		s := harness.New(t, harness.World{Pool: p, Tenants: who, Upstreams: map[string]http.Handler{"first": servers[0], "second": servers[1]}})

		var mu sync.Mutex
		var shares [3]float64
		var callers sync.WaitGroup
		began := time.Now()
		ended := func() bool { return time.Since(began) > (2+minutes)*time.Minute }
		for tenant, c := range []struct{ words, input, output int }{{1500, 1882, 60}, {100, 132, 300}, {800, 1007, 150}} {
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":%d,"mock":{"output_tokens":%d}}`,
				strings.Repeat("word ", c.words), c.output, c.output)
			share := max(float64(c.input)/itpm, float64(c.output)/otpm) / float64(int(4)>>tenant)
			for range 60 {
				callers.Go(func() {
					for !ended() {
						a := s.Call(t.Context(), fmt.Sprint(tenant), body)
						if a.Status != http.StatusOK || !strings.Contains(a.Body, fmt.Sprintf(`"prompt_tokens":%d,"completion_tokens":%d,`, c.input, c.output)) {
							t.Errorf("status %d: %s", a.Status, a.Body)
						}
						mu.Lock()
						if time.Since(began) > 2*time.Minute && !ended() {
							shares[tenant] += share
						}
						mu.Unlock()
					}
				})
			}
		}
		sum := func() (st mock.Stats) {
			for _, u := range servers {
				one := u.Mock.Stats()
				st.PromptTokens += one.PromptTokens
				st.OutputTokens += one.OutputTokens
				st.Refused += one.Refused
			}
			return st
		}
		time.Sleep(2 * time.Minute)
		before := sum()
		time.Sleep(minutes * time.Minute)
		after := sum()
		callers.Wait()
		input := float64(after.PromptTokens-before.PromptTokens) / (itpm * minutes)
		output := float64(after.OutputTokens-before.OutputTokens) / (otpm * minutes)
		t.Logf("dominant shares for a unit of weight %.4f, %.4f of the input and %.4f of the output are used", shares, input, output)
		if max(input, output) < least || after.Refused > 0 {
			t.Errorf("%.4f of the input and %.4f of the output are used, and the servers refused %d calls", input, output, after.Refused)
		}
		mean := (shares[0] + shares[1] + shares[2]) / 3
		for tenant, share := range shares {
			if math.Abs(share/mean-1) > .01 {
				t.Errorf("tenant %d has %.3f of its dominant share", tenant, share/mean)
			}
		}
		h := s.CallTo(t.Context(), "/messages", "0", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`).Header
		for axis, limit := range map[string]string{"Input": "800000", "Output": "240000"} {
			if got := h.Get("Anthropic-Ratelimit-" + axis + "-Tokens-Limit"); got != limit {
				t.Errorf("the limit on %s is %q by the headers, want %s", axis, got, limit)
			}
		}
	})
}
