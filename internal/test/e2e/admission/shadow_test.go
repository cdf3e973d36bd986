package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
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

// shadowCases are limits of which one call uses up all, with %v where shadow is on or off.
var shadowCases = map[string]struct {
	pool, policy string
	together     bool   // the calls run at the same time
	reason       string // for which the second and third call would have been refused
	bob          int    // what another tenant gets then
}{
	"own rpm":         {"rpm: 100", "{ann: {rpm: 1, shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "requests", 200},
	"own tpm":         {"rpm: 100", "{ann: {tpm: 1200, shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "tokens", 200},
	"own concurrency": {"rpm: 100", "{ann: {concurrency: 1, shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", true, "concurrency", 200},
	"own in one pool": {"rpm: 100", "{ann: {pools: {p: {rpm: 1}}, shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "requests", 200},
	"budget":          {"rpm: 100", "{ann: {budgets: [{tokens: 1000, per: day}], shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "budget", 200},
	"the pool's rpm":  {"rpm: 1", "{ann: {shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "requests", 429},
	"the pool's tpm":  {"tpm: 1200", "{ann: {shadow: %v, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}", false, "tokens", 429},
	"a tenant's above": {
		"rpm: 100", "{acme: {rpm: 1, keys: [KEY(bob)], teams: {ann: {shadow: %v, keys: [KEY(ann)]}}}}", false, "requests", 429,
	},
	"the file's": {"rpm: 100", "{ann: {rpm: 1, keys: [KEY(ann)]}, bob: {shadow: false, keys: [KEY(bob)]}}\nshadow: %v\n", false, "requests", 200},
	"the tier's": {"rpm: 100", "{ann: {tier: trial, keys: [KEY(ann)]}, bob: {keys: [KEY(bob)]}}\ntiers: {trial: {rpm: 1, shadow: %v}}\n", false, "requests", 200},
}

// Who is in shadow gets an answer to every call, and is told nothing; the operator
// sees what would have been refused, and why. Others feel its use. The same policy
// without the word refuses.
func TestShadow(t *testing.T) {
	for name, c := range shadowCases {
		testkit.Virtual(t, name, func(t *testing.T) {
			var lines bytes.Buffer
			s := harness.New(t, harness.World{
				Mock: mock.Config{FirstToken: time.Second}, Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)},
				Log: slog.NewJSONHandler(&lines, nil),
			})
			policy := func(shadow bool) *tenants.Snapshot {
				return harness.PolicyFromFiles(t, c.pool, "tenants: "+fmt.Sprintf(c.policy, shadow))
			}
			s.Apply(policy(true))
			time.Sleep(2 * time.Minute)
			threeInShadow(s, c.together)
			wantShadow(s, true, c.reason, lines.String())
			body := harness.Chat(false, 985, `,"mock":{"output_tokens":985}`)
			if a := s.Call(t.Context(), "bob", body); a.Status != c.bob {
				t.Errorf("bob gets %d, want %d: %s", a.Status, c.bob, a.Body)
			}

			s.Apply(policy(false))
			if refused := oneIsRefused(s, c.together); !refused {
				t.Error("without shadow nothing is refused")
			}
			wantShadow(s, false, c.reason, lines.String())
			s.Apply(harness.PolicyFromFiles(t, c.pool, "tenants: {bob: {keys: [KEY(bob)]}}"))
			if n := s.Series("ann") + s.Series("acme/ann"); n != 0 {
				t.Errorf("%d series are left of who is gone", n)
			}
		})
	}
}

// calls sends n calls of ann, one after another or at the same time.
func calls(s *harness.Stack, n int, together bool) []harness.Answer {
	var wg sync.WaitGroup
	out := make([]harness.Answer, n)
	for i := range n {
		wg.Go(func() {
			out[i] = s.Call(s.T.Context(), "ann", harness.Chat(false, 985, `,"mock":{"output_tokens":985}`))
		})
		if !together {
			wg.Wait()
		}
	}
	wg.Wait()
	synctest.Wait()
	return out
}

func threeInShadow(s *harness.Stack, together bool) {
	s.T.Helper()
	for _, a := range calls(s, 3, together) {
		if a.Status != http.StatusOK {
			s.T.Errorf("in shadow: %d %s", a.Status, a.Body)
		}
		for name, values := range a.Header {
			if text := strings.ToLower(name + strings.Join(values, " ")); strings.Contains(text, "shadow") {
				s.T.Errorf("the answer tells: %s: %v", name, values)
			}
		}
	}
}

func oneIsRefused(s *harness.Stack, together bool) bool {
	for _, a := range calls(s, 2, together) {
		if a.Status == http.StatusTooManyRequests {
			return true
		}
	}
	return false
}

// wantShadow wants two calls to have been counted, logged and shown as refused for
// this reason, none for another, and ann to be in shadow, or not.
func wantShadow(s *harness.Stack, shadow bool, reason, lines string) {
	s.T.Helper()
	of := s.Sum("llmgov_shadow_refused_total", map[string]string{"reason": reason, "pool": "p"})
	all := s.Sum("llmgov_shadow_refused_total", nil)
	if of != 2 || all != 2 {
		s.T.Errorf("the metric has %d for %s and %d in all, want 2", of, reason, all)
	}
	if got, said := strings.Count(lines, `"shadow":"`+reason+`"`), strings.Count(lines, `"shadow"`); got != 2 || said != 2 {
		s.T.Errorf("%d lines of the log say %s, %d anything:\n%s", got, reason, said, lines)
	}
	var list struct {
		Tenants []struct {
			Name    string
			Shadow  bool
			Refused int64 `json:"shadow_refused"`
		}
	}
	s.Admin("/api/v1/tenants", &list)
	var usage struct{ Shadow bool }
	if a := s.Get("/v1/usage", "ann"); json.Unmarshal([]byte(a.Body), &usage) != nil {
		s.T.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, t := range list.Tenants {
		if isAnn := strings.HasSuffix(t.Name, "ann"); isAnn && (t.Refused != 2 || t.Shadow != shadow || usage.Shadow != shadow) || !isAnn && (t.Refused != 0 || t.Shadow) {
			s.T.Errorf("/api/v1/tenants has %+v, /v1/usage %v", t, usage.Shadow)
		}
	}
}
