package streams

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// What remains falls with each call by what that took, in every dialect.
func TestP35_WhatRemainsFallsByWhatWasTaken(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := limited(t, func(a *tenants.Tenant) { a.TPM = 10_000 }, mock.Config{})
			for i := range 8 {
				before := s.Mock.Stats().TokensProduced
				a := s.CallTo(t.Context(), d.path, "a", d.call(i%2 == 0, 10+100*(i%3), ""))
				left, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Remaining-Tokens"), 10, 64)
				synctest.Wait()
				now := s.Governor.State().Tenants[0].Limits[0].Used
				after := s.Mock.Stats().TokensProduced
				// The header is of its call's beginning: what was used, and what that holds.
				if err != nil || now != after || left > 10_000-before-1 || left < 10_000-before-500 {
					t.Errorf("%s, call %d: %d used of %d produced, %d said to remain", d.name, i, now, after, left)
				}
			}
		})
	}
}

// Whether tokens from a cache count is the pool's to say: not at all, a tenth, or like
// others.
func TestP36_CachedTokensCountAsThePoolSays(t *testing.T) {
	const said = `{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010,"prompt_tokens_details":{"cached_tokens":800}}}`
	for weight, want := range map[int64]int64{0: 210, 100: 290, 1000: 1010} {
		synctest.Test(t, func(t *testing.T) {
			p := harness.Pool(100_000, 0, 0)
			p.TokenWeights = tenants.TokenWeights{Input: 1000, CachedInput: weight, Output: 1000, Reasoning: 1000, Audio: 1000}
			a := harness.Tenant("a", 1)
			a.TPM = 50_000
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{a}, Wrap: saying("application/json", said)})
			s.Call(t.Context(), "a", harness.Chat(false, 10, ""))
			st := s.Governor.State()
			if ofPool, own := st.Pools[0].Axes[0].Used, st.Tenants[0].Limits[0].Used; ofPool != want || own != want {
				t.Errorf("with a weight of %d they count %d in the pool and %d in the tenant's minute, want %d", weight, ofPool, own, want)
			}
			if got := s.Charged("a", "cached_input"); got != 800 {
				t.Errorf("%d cached tokens are told", got)
			}
		})
	}
}

// Input and output have limits of their own, and each counts only its own.
func TestP38_InputAndOutputHaveTheirOwnLimits(t *testing.T) {
	prompt := strings.Repeat("a word or two ", 60)
	long := func(output string) string {
		return strings.Replace(harness.Chat(false, 1, `,"mock":{"output_tokens":`+output+`}`), `"max_tokens":1`, `"max_tokens":`+output, 1)
	}
	for _, tt := range []struct {
		name, says   string
		edit         func(*tenants.Tenant)
		passes, stop string
	}{
		{"input", "input tokens per min (ITPM)", func(a *tenants.Tenant) { a.ITPM = 250 }, long("5000"), strings.Replace(long("1"), "How long is a piece of string?", prompt, 1)},
		{"output", "output tokens per min (OTPM)", func(a *tenants.Tenant) { a.OTPM = 250 }, strings.Replace(long("1"), "How long is a piece of string?", prompt, 1), long("200")},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := limited(t, tt.edit, mock.Config{})
			for range 5 {
				if a := s.Call(t.Context(), "a", tt.passes); a.Status != http.StatusOK {
					t.Errorf("%s: what counts little gets %d: %s", tt.name, a.Status, a.Body)
				}
			}
			var last harness.Answer
			for range 3 {
				last = s.Call(t.Context(), "a", tt.stop)
			}
			if last.Status != http.StatusTooManyRequests || !strings.Contains(last.Body, tt.says) {
				t.Errorf("%s: %d %s", tt.name, last.Status, last.Body)
			}
		})
	}
}

// A budget in money lets a tenant have many tokens of a cheap model, or few of a dear one.
func TestP39_MoneyWeighsModels(t *testing.T) {
	const budget = 20_000 // µUSD
	for model, want := range map[string]int64{"cheap": 173, "dear": 1} {
		synctest.Test(t, func(t *testing.T) {
			a := harness.Tenant("a", 1)
			a.Models = []string{"cheap", "dear"}
			a.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: budget, Per: tenants.Day}}
			s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{a}, Prices: []tenants.ModelPrice{
				{Model: "cheap", Price: tenants.Price{Input: 1_000_000, Output: 1_000_000}},
				{Model: "dear", Price: tenants.Price{Input: 100_000_000, Output: 100_000_000}},
			}})
			body := strings.Replace(harness.Chat(false, 100, ""), `"m"`, `"`+model+`"`, 1)
			served := int64(0)
			last := harness.Answer{}
			for last = s.Call(t.Context(), "a", body); last.Status == http.StatusOK; last = s.Call(t.Context(), "a", body) {
				served++
			}
			took := s.Mock.Stats().TokensProduced
			if served < want-1 || served > want+1 || harness.ErrorCode(last.Body) != "insufficient_quota" || model == "cheap" && took < 19_000 {
				t.Errorf("%s: %d were served, %d tokens, and then %d: %s", model, served, took, last.Status, last.Body)
			}
		})
	}
}

// A refusal on /messages says when to come back, and all limits under the names that
// Anthropic's SDKs know.
func TestP59_MessagesSayWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, func(a *tenants.Tenant) {
			a.RPM = 1
			a.TPM = 100_000
		}, mock.Config{})
		messages := dialects[3]
		for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			a := s.CallTo(t.Context(), messages.path, "a", messages.call(true, 10, ""))
			h := a.Header
			if a.Status != want || h.Get("anthropic-ratelimit-requests-limit") != "1" || h.Get("anthropic-ratelimit-requests-remaining") != "0" || h.Get("anthropic-ratelimit-tokens-limit") != "100000" {
				t.Errorf("call %d: %d %v", i, a.Status, h)
			}
			reset, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-requests-reset"))
			if left := time.Until(reset); err != nil || left < 58*time.Second || left > 61*time.Second {
				t.Errorf("call %d: it resets at %q", i, h.Get("anthropic-ratelimit-requests-reset"))
			}
			if want == http.StatusTooManyRequests && (h.Get("Retry-After") != "60" && h.Get("Retry-After") != "61" || h.Get("retry-after-ms") == "" || harness.ReadError(a.Body).Type != "rate_limit_error") {
				t.Errorf("%v %s", h, a.Body)
			}
		}
	})
}
