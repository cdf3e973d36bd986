package reserveserver_test

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestCommit_OverloadOfTenant: an adaptive limit is for all tenants, so a model server that has more to do than it can lowers it only if somebody
// tells of that who is trusted. A tenant with its own key cannot.
func TestCommit_OverloadOfTenant(t *testing.T) {
	for _, status := range []int{429, 503, 504, 529} {
		for _, c := range []struct {
			name, credential string
			lowers           bool
		}{
			{"the token", token, true},
			{"a tenant's key", "sk-acme", false},
		} {
			t.Run(fmt.Sprint(status, " by ", c.name), func(t *testing.T) {
				l := serve(t, func(p *tenants.Pool, _ *tenants.Tenant) { p.Concurrency = 16 })
				l.reserve(t, "good", token, 12)
				l.adapt(t) // the limit begins at how many run
				l.commit(t, "good", token, 12, `{"usage": {"input_tokens": 10, "output_tokens": 10}}`)
				limit := func() int64 { return l.gov.Standing("other", "p").Concurrent.Limit }
				before := limit()
				l.reserve(t, "bad", c.credential, 8)
				l.commit(t, "bad", c.credential, 8, fmt.Sprintf(`{"outcome": "answered_error", "status": %d}`, status))
				if after := limit(); (after < before) != c.lowers {
					t.Errorf("the limit of all goes from %d to %d", before, after)
				}
			})
		}
	}
}

// adapt makes the pool's limit on concurrency adaptive.
func (l *listener) adapt(t *testing.T) {
	t.Helper()
	l.cfg.Pools[0].Adaptive = tenants.AIMD
	snap := testkit.Must(tenants.Build(l.cfg, l.list))(t)
	testkit.OK(t, l.ctl.Apply(snap))
}

// reserve reserves some calls of acme.
func (l *listener) reserve(t *testing.T, name, credential string, n int) {
	t.Helper()
	for i := range n {
		body := fmt.Sprintf(`{"reservation_id": "%s-%d", "tenant": "acme", "model": "m", "input_tokens": 10, "max_output_tokens": 10}`, name, i)
		if code, _, text := l.post(t, credential, "/v1/reservations", body); code != 200 {
			t.Fatal(code, text)
		}
	}
}

// commit commits them.
func (l *listener) commit(t *testing.T, name, credential string, n int, body string) {
	t.Helper()
	for i := range n {
		if code, _, text := l.post(t, credential, fmt.Sprintf("/v1/reservations/%s-%d/commit", name, i), body); code != 200 {
			t.Fatal(code, text)
		}
	}
}

// TestCommit_UsageOfTenant: by either protocol, the pool counts of what a tenant tells with its own key no more than it holds. Whoever has the token
// is believed.
func TestCommit_UsageOfTenant(t *testing.T) {
	for name, c := range map[string]struct {
		credential string
		want       int64
	}{
		"the token":      {token, 500_000},
		"a tenant's key": {"sk-acme", 20},
	} {
		t.Run(name, func(t *testing.T) {
			l := serve(t, nil)
			l.reserve(t, "r", c.credential, 1)
			l.commit(t, "r", c.credential, 1, `{"usage": {"input_tokens": 250000, "output_tokens": 250000}}`)
			if got := l.used(); got != c.want {
				t.Errorf("over HTTP the pool counts %d, %d is right", got, c.want)
			}
			l = serve(t, nil)
			ctx, stub := l.stub(t, c.credential)
			g, err := stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: "m", InputTokens: 10, MaxOutputTokens: 10})
			if err != nil || g.Refusal != nil {
				t.Fatal(g, err)
			}
			testkit.Must(stub.Commit(ctx, &admissionv1.CommitRequest{ReservationId: g.ReservationId, Usage: &admissionv1.Usage{InputTokens: 500_000}}))(t)
			if got := l.used(); got != c.want {
				t.Errorf("over gRPC the pool counts %d, %d is right", got, c.want)
			}
		})
	}
}
