package doors

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// TestEnvoy_LocalRateLimit compares a budget of ten calls, at two replicas of Envoy: by Envoy's own local limit, and by
// llmgov. A local limit is each replica's own.
func TestEnvoy_LocalRateLimit(t *testing.T) {
	needsEnvoy(t)
	for _, c := range []struct {
		name  string
		envoy envoyConfig
		want  int64
	}{
		{"local_ratelimit", envoyConfig{LocalLimit: 10}, 20},
		{"ext_proc", envoyConfig{ExtProc: true}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "tpm: 100000000", map[string]string{"ten": "budgets: [{requests: 10, per: month}]"})
			s.Serve()
			replicas := []Post{openEnvoy(t, s, c.envoy), openEnvoy(t, s, c.envoy)}
			var shown atomic.Int64
			statuses := atOnce(t.Context(), 50, func(i int) said {
				r := call(t.Context(), replicas[i%2], "ten", chat(20, false, `"first_token_ms":50`))
				if r.status == http.StatusTooManyRequests && r.code != "" {
					shown.Add(1)
				}
				return r
			})
			s.atRest(t)
			stats := s.Model.Stats()
			t.Logf("%d of 50 calls reached the model server, %d tokens, answers %v; %d refusals say why", stats.Requests, stats.TokensProduced, statuses, shown.Load())
			if stats.Requests != c.want {
				t.Errorf("%d calls reached the model server, %d is known", stats.Requests, c.want)
			}
		})
	}
}
