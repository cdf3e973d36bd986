package input

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// atOnce sends a call so often at once, and counts the answers by status.
func atOnce(s *harness.Stack, calls int, path, body string, header ...string) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	testkit.AtOnce(calls, func(_ int) {
		a := s.CallTo(s.T.Context(), path, "a", body, header...)
		mu.Lock()
		defer mu.Unlock()
		statuses[a.Status]++
	})
	return statuses
}

// Fifty prompts at once do not pass the tenant's limit together, however the words in them are
// joined.
func TestAudit_H1_FiftyPromptsWithoutSpaces(t *testing.T) {
	const limit, words = 100_000, 80_000
	for name, gap := range map[string]string{"spaces": " ", "hyphens": "-", "underscores": "_", "slashes": "/", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := harness.Tenant("a", 1)
				a.TPM = limit
				w := harness.World{Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{a}, Mock: mock.Config{TPM: 1 << 40, FirstToken: 10 * time.Second}}
				w.Pool.Burst = time.Minute
				w.Pool.BurstSet = true
				s := harness.New(t, w)
				time.Sleep(time.Minute) // so that the pool has all of its minute
				body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word"+gap, words) + `"}],"max_tokens":1}`
				statuses := atOnce(s, 50, "/chat/completions", body)
				one := mock.PromptTokens([]byte(body), "/v1/chat/completions") + 1
				st := s.Mock.Stats()
				if counted := st.TokensProduced; counted > limit+one || counted == 0 {
					t.Errorf("%v: the provider counted %d tokens at a limit of %d", statuses, counted, limit)
				}
			})
		})
	}
}

// A response that continues an earlier one is held at what that one took, however it was asked for.
func TestAudit_H2_EarlierResponses(t *testing.T) {
	const limit = 990_000
	long := `{"model":"m","max_output_tokens":10,"input":"` + strings.Repeat("word", 100_000) + `"`
	for name, first := range map[string]string{
		"plain":           long + `}`,
		"streamed":        long + `,"stream":true}`,
		"broken off":      long + `,"stream":true,"mock":{"hangup_after":5}}`,
		"in a background": long + `,"background":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := harness.World{Pool: harness.Pool(limit, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Mock: mock.Config{TPM: 1 << 40, FirstToken: 10 * time.Second}}
				w.Pool.HeadroomPPM = 0
				w.Pool.Burst = time.Minute
				w.Pool.BurstSet = true
				s := harness.New(t, w)
				time.Sleep(time.Minute)
				a := s.CallTo(t.Context(), "/responses", "a", first)
				id := regexp.MustCompile(`"resp_[^"]*"`).FindString(a.Body)
				if id == "" {
					t.Fatalf("%d %s", a.Status, a.Body)
				}
				time.Sleep(2 * time.Minute)
				before := s.Mock.Stats().TokensProduced
				statuses := atOnce(s, 100, "/responses", `{"model":"m","max_output_tokens":10,"input":"x","previous_response_id":`+id+`}`)
				took := s.Mock.Stats().TokensProduced - before
				if took > limit+100_025 {
					t.Errorf("%v: the provider counted %d tokens in a pool of %d", statuses, took, limit)
				}
				if statuses[200] == 0 {
					t.Errorf("%v: nobody was served", statuses)
				}
			})
		})
	}
}

// What no bound limits is held at the default, and then at what such calls have taken: each route
// and tenant by itself.
func TestAudit_H2_AnswersWithoutBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := harness.World{Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Mock: mock.Config{OutputTokens: 6000}}
		w.Pool.Burst = time.Minute
		w.Pool.BurstSet = true
		s := harness.New(t, w)
		time.Sleep(time.Minute)
		held := func(path, body string, header ...string) int64 {
			before := s.Charged("a", "held")
			s.CallTo(t.Context(), path, "a", body, header...).WantOK(t, path)
			return s.Charged("a", "held") - before
		}
		const draw, speak = `{"model":"m","prompt":"a"}`, `{"model":"m","input":"a","stream_format":"sse"}`
		for range 30 {
			if n := held("/images/generations", draw); n < 4096 {
				t.Fatalf("a picture is held at %d tokens", n)
			}
		}
		for name, c := range map[string]struct {
			path, body string
			header     []string
			least      int64
			most       int64
		}{
			"one more":       {"/images/generations", draw, nil, 6000, 7000},
			"three":          {"/images/generations", `{"model":"m","prompt":"a","n":3}`, nil, 18_000, 21_000},
			"speech":         {"/audio/speech", speak, nil, 4096, 4200},
			"another model":  {"/images/generations", `{"model":"n","prompt":"a"}`, nil, 4096, 4200},
			"three edits":    {"/images/edits", asForm("image", "model", "m", "n", "3"), []string{"Content-Type", formKind}, 3 * 4096, 3*4096 + 1700},
			"a transcript":   {"/audio/transcriptions", asForm("file", "model", "m"), []string{"Content-Type", formKind}, 4096 + 400, 4096 + 500},
			"no answer ever": {"/embeddings", `{"model":"m","input":"a"}`, nil, 1, 20},
		} {
			if n := held(c.path, c.body, c.header...); n < c.least || n > c.most {
				t.Errorf("%s: held at %d tokens, want %d to %d", name, n, c.least, c.most)
			}
		}
		for name, fields := range map[string][]string{"twice": {"n", "1", "n", "10"}, "none": {"n", ""}, "a word": {"n", "ten"}, "a sign": {"n", "+10"}, "too many": {"n", "10000"}} {
			if a := s.CallTo(t.Context(), "/images/edits", "a", asForm("image", append([]string{"model", "m"}, fields...)...), "Content-Type", formKind); a.Status != 400 {
				t.Errorf("n %s: status %d", name, a.Status)
			}
		}
	})
}

// What lies elsewhere is held at the default, and then at what such calls have taken.
func TestAudit_H2_WhatLiesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := harness.World{Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}}
		w.Pool.Burst = time.Minute
		w.Pool.BurstSet = true
		s := harness.New(t, w)
		time.Sleep(time.Minute)
		held := func(body string) int64 {
			before := s.Charged("a", "held")
			s.CallTo(t.Context(), "/responses", "a", body)
			return s.Charged("a", "held") - before
		}
		const plain, stored = `{"model":"m","input":"a","max_output_tokens":1}`, `{"model":"m","input":"a","max_output_tokens":1,"prompt":{"id":"pmpt_1"}}`
		if n := held(stored); n < 4096 || n > 4200 {
			t.Errorf("the first is held at %d tokens", n)
		}
		for range 3 {
			if n := held(stored); n < 990 || n > 1010 {
				t.Errorf("the next one is held at %d tokens, and the one before took 1002", n)
			}
		}
		if n := held(plain); n > 100 {
			t.Errorf("one without is held at %d tokens", n)
		}
	})
}
