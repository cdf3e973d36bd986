package streams

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Tests whose names have a number are about what users of other gateways complained of:
// docs/pain-points.md tells who, and what happens here.

// teachers are as many as it takes for what they teach to be learned for others.
var teachers = []string{"teacher", "teacher2", "teacher3"}

func withTeachers(list ...tenants.Tenant) []tenants.Tenant {
	for _, name := range teachers {
		list = append(list, harness.Tenant(name, 1))
	}
	return list
}

// limited is a stack of tenant a, whose limits edit sets, and of teachers, whose one
// call teaches what a prompt of chat() is.
func limited(t *testing.T, edit func(a *tenants.Tenant), m mock.Config) *harness.Stack {
	a := harness.Tenant("a", 1)
	edit(&a)
	s := harness.New(t, harness.World{Mock: m, Pool: harness.Pool(0, 0, 1000), Tenants: withTeachers(a), Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1_000_000, Output: 1_000_000}}}})
	for _, teacher := range teachers {
		s.Call(t.Context(), teacher, harness.Chat(false, 1, "")).WantOK(t)
	}
	time.Sleep(time.Minute) // nothing of it counts any more
	s.Mock.ResetStats()
	return s
}

// atOnce sends n calls at once and returns how many were served; the others must be
// refused with a 429.
func atOnce(s *harness.Stack, n int, body string) int64 {
	var served atomic.Int64
	testkit.AtOnce(n, func(_ int) {
		switch a := s.Call(s.T.Context(), "a", body); {
		case a.Status == http.StatusOK && a.Err == nil:
			served.Add(1)
		case a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "":
			s.T.Errorf("%d %v %v: %s", a.Status, a.Err, a.Header, a.Body)
		}
	})
	return served.Load()
}

// Five calls at once, each larger than the minute: one goes, and what it takes beyond
// the minute is waited for.
func TestP1_FiveAtOnceKeepTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, func(a *tenants.Tenant) { a.TPM = 100 }, mock.Config{TokensPerSecond: 50})
		body := harness.Chat(true, 118, "") // 133 tokens
		if served := atOnce(s, 5, body); served != 1 {
			t.Errorf("%d of five were served", served)
		}
		if took := s.Mock.Stats().TokensProduced; took != 133 {
			t.Errorf("%d tokens were produced of 100 a minute, want those of one call", took)
		}
		for range 15 { // 33 are owed and drain in 20 s of the second minute
			time.Sleep(5 * time.Second)
			if served := atOnce(s, 5, body); served != 0 {
				t.Errorf("%d were served on top of it", served)
			}
		}
		time.Sleep(10 * time.Second)
		if served := atOnce(s, 5, body); served != 1 {
			t.Errorf("%d were served once nothing was owed", served)
		}
	})
}

// A hundred streams at once, every minute, against 100 tokens a minute: not one late.
func TestP5_HundredAtOnceKeepTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, func(a *tenants.Tenant) { a.TPM = 100 }, mock.Config{TPM: 1e9, TokensPerSecond: 50})
		total := int64(0)
		for range 10 {
			served := atOnce(s, 100, harness.Chat(true, 30, ""))
			total += served
			if took := s.Mock.Stats().WindowTokensPeak; took > 100 {
				t.Errorf("%d tokens in a minute", took)
			}
			time.Sleep(30 * time.Second)
		}
		if total < 8 { // two of 45 tokens every minute, for five minutes
			t.Errorf("only %d were served", total)
		}
	})
}

// What a call holds and does not take is there again for the next one, at once.
func TestP6_WhatIsNotTakenComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, func(a *tenants.Tenant) { a.TPM = 1000 }, mock.Config{})
		body := harness.Chat(true, 500, `,"mock":{"output_tokens":35}`) // holds 515, takes 50
		served := int64(0)
		for s.Call(t.Context(), "a", body).Status == http.StatusOK {
			served++
		}
		used := s.Governor.State().Tenants[0].Limits[0].Used
		if served != 10 || used != 500 || s.Charged("a", "input")+s.Charged("a", "output") != 500 {
			t.Errorf("%d were served and %d tokens used, want 10 and 500", served, used)
		}
	})
}

// The same race against a budget: in tokens, in money, and by calls that do not say how
// long they may get.
func TestP8_BudgetsHoldInParallel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		budget tenants.Budget
		body   string
		want   int64
	}{
		{"tokens", tenants.Budget{Unit: tenants.Tokens, Limit: 1000, Per: tenants.Day}, harness.Chat(true, 84, ""), 10},
		{"money", tenants.Budget{Unit: tenants.MicroUSD, Limit: 1000, Per: tenants.Month}, harness.Chat(true, 84, ""), 10},
		{"no bound", tenants.Budget{Unit: tenants.Tokens, Limit: 9000, Per: tenants.Hour}, strings.Replace(harness.Chat(true, 84, ""), `,"max_tokens":84`, "", 1), 2},
	} {
		testkit.Virtual(t, tt.name, func(t *testing.T) {
			s := limited(t, func(a *tenants.Tenant) { a.Budgets = []tenants.Budget{tt.budget} }, mock.Config{TokensPerSecond: 50, OutputTokens: 4000})
			served := atOnce(s, 50, tt.body)
			took := s.Charged("a", "input") + s.Charged("a", "output")
			if served != tt.want || took > tt.budget.Limit || took == 0 {
				t.Errorf("%d were served, which took %d of %d; want %d", served, took, tt.budget.Limit, tt.want)
			}
		})
	}
}

// A limit below any estimate serves its first call, whatever that may say or not say.
func TestP9_SmallLimitsServeTheirFirstCall(t *testing.T) {
	for _, limit := range []int64{1, 100, 1000} {
		for _, bound := range []string{"", `,"max_tokens":4096`} {
			synctest.Test(t, func(t *testing.T) {
				s := limited(t, func(a *tenants.Tenant) { a.TPM = limit }, mock.Config{})
				body := strings.Replace(harness.Chat(false, 1, `,"mock":{"output_tokens":32}`), `,"max_tokens":1`, bound, 1)
				s.Call(t.Context(), "a", body).WantOK(t, limit, "tokens a minute", bound)
			})
		}
	}
}

// No call needs a bound, with limits on tokens or without, but where the API itself asks
// for one.
func TestP10_NoBoundIsNeeded(t *testing.T) {
	for _, d := range dialects {
		if d.name == "messages" {
			continue
		}
		for _, tpm := range []int64{0, 100_000} {
			synctest.Test(t, func(t *testing.T) {
				s := limited(t, func(a *tenants.Tenant) {
					a.TPM = tpm
					a.RPM = 100
				}, mock.Config{})
				ask, _, _ := strings.Cut(d.ask, `,"max_`)
				for _, stream := range []bool{false, true} {
					s.CallTo(t.Context(), d.path, "a", fmt.Sprintf(`{"model":"m",%s,"stream":%v}`, ask, stream)).WantOK(t, d.name, "stream", stream, tpm, "tokens a minute")
				}
				st := s.Mock.Stats()
				if took := s.Charged("a", "input") + s.Charged("a", "output"); took != st.TokensProduced || st.OutputTokens != 64 {
					t.Errorf("%s: charged %d of %+v", d.name, took, st)
				}
			})
		}
	}
}

// Calls on every route are held against the minute before they go, by whatever name
// their prompt has, and where there is no limit but that on tokens.
func TestP11_EveryRouteHoldsTokens(t *testing.T) {
	words := strings.Repeat("a word or two ", 20)
	for path, ask := range map[string]string{
		"/chat/completions": `"messages":[{"role":"user","content":"%s"}]`, "/messages": `"max_tokens":100,"messages":[{"role":"user","content":"%s"}]`,
		"/completions": `"prompt":"%s"`, "/responses": `"input":"%s"`, "/embeddings": `"input":"%s"`, "/moderations": `"input":["%s"]`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := limited(t, func(a *tenants.Tenant) { a.TPM = 130 }, mock.Config{FirstToken: 10 * time.Second})
			body := fmt.Sprintf(`{"model":"new",`+ask+`}`, words)
			var wg sync.WaitGroup
			wg.Go(func() {
				s.CallTo(t.Context(), path, "a", body).WantOK(t, path)
			})
			time.Sleep(time.Second)
			if used := s.Governor.State().Tenants[0].Limits[0].Used; used < 60 {
				t.Errorf("%s holds %d tokens while it runs", path, used)
			}
			wg.Go(func() { s.CallTo(t.Context(), path, "a", body) }) // has room where no output is held
			synctest.Wait()
			if e := harness.ReadError(s.CallTo(t.Context(), path, "a", body).Body); e.Type != "tokens" && e.Type != "rate_limit_error" {
				t.Errorf("%s: %+v", path, e)
			}
			wg.Wait()
		})
	}
}

// After hundreds of streams that end in every way a budget counts what they were
// charged, to the token, and at no time was a call refused that it had room for.
func TestP13_BudgetsCountWhatWasCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStorm(t, dialects[0], 1, tenants.Budget{Unit: tenants.Tokens, Limit: 150_000, Per: tenants.Month})
		st.calibrate()
		st.rage(280)
		checkCharged(st.Stack, "at the end")
		for _, ts := range st.Governor.State().Tenants[:2] { // not the teachers
			took := st.Charged(ts.Config.Name, "input") + st.Charged(ts.Config.Name, "output")
			if used := ts.Budgets[0].Used; used != took || used < 10_000 {
				t.Errorf("the budget of %s counts %d, charged were %d", ts.Config.Name, used, took)
			}
		}
		if n := st.Sum("llmgov_requests_total", map[string]string{"outcome": "refused"}); n != 0 {
			t.Errorf("%d calls were refused", n)
		}
	})
}
