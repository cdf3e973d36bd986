package reserve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestReserve_Told: in whichever way a tenant with its own key ends a reservation of 100 tokens with a thousand million, the pool counts no more
// than these 100, and the tenant all of it. Whoever may name any tenant is believed.
func TestReserve_Told(t *testing.T) {
	const absurd = 1_000_000_000
	for name, end := range map[string]func(w *world, owner string){
		"commit": func(w *world, owner string) { _, _ = w.Commit(owner, "r", reported(absurd, 0)) },
		"commit, whole": func(w *world, owner string) {
			_, _ = w.Commit(owner, "r", client.End{Usage: client.Usage{Output: absurd}, Reported: true})
		},
		"commit of what was produced": func(w *world, owner string) {
			_, _ = w.Commit(owner, "r", client.End{Outcome: client.Failed, Produced: client.Produced{Tokens: absurd}})
		},
		"cancel and commit": func(w *world, owner string) {
			_, _ = w.Commit(owner, "r", cancelled)
			_, _ = w.Commit(owner, "r", reported(absurd, 0))
		},
		"progress and expiry": func(w *world, owner string) {
			_, _, _ = w.Progress(owner, "r", client.Produced{Tokens: absurd})
			time.Sleep(61 * time.Second)
		},
		"expiry and commit": func(w *world, owner string) {
			time.Sleep(61 * time.Second)
			_, _ = w.Commit(owner, "r", reported(absurd, 0))
		},
		"progress and shutdown": func(w *world, owner string) {
			_, _, _ = w.Progress(owner, "r", client.Produced{Tokens: absurd})
			w.Close()
		},
	} {
		for _, told := range []bool{false, true} {
			testkit.Virtual(t, name, func(t *testing.T) {
				w := newWorld(t, 10, func(p *tenants.Pool, _ *tenants.Tenant) {
					p.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1e12, Per: tenants.Month}}
				})
				call := asked
				owner := ""
				if told {
					owner = "acme"
					call.Tenant = ""
					call.Key = "sk-acme"
				}
				testkit.Must(w.Reserve(t.Context(), &reserve.Ask{ID: "r", Owner: owner, Told: told, Call: call}))(t)
				end(w, owner)
				p := w.gov.State().Pools[0]
				minute := p.Axes[escrow.Tokens].Used
				budget := p.Budgets[0].Used
				if believed := minute > absurd/2 && budget > absurd/2; believed == told || told && (minute > 100 || budget > 100) {
					t.Errorf("told by the tenant: %t; the pool counts %d in its minute and %d of its budget", told, minute, budget)
				}
				if got := w.charged(); got < absurd {
					t.Errorf("the tenant is charged %d", got)
				}
				w.left(t)
			})
		}
	}
}

// TestReserve_ToldTeachesNobody: whatever a tenant with its own key tells of its calls, others' calls are held, expected and estimated as if it had
// told nothing. Whoever may name any tenant teaches what is expected of all.
func TestReserve_ToldTeachesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		untaught := afterLessons(t, "")
		told := afterLessons(t, "themselves")
		believed := afterLessons(t, "*")
		for what, n := range untaught {
			if told[what] != n {
				t.Errorf("%s: %d after a tenant told of its calls, %d is right", what, told[what], n)
			}
			if isOwn := what == "held of an answer without a bound"; (believed[what] == n) != isOwn { // which nobody learns from others
				t.Errorf("%s: %d, and %d after a trusted caller told of others' calls", what, n, believed[what])
			}
		}
	})
}

// afterLessons is what calls of the tenant other cost, after 40 calls of three tenants each were told of by an owner: nobody, themselves, or somebody trusted (*).
func afterLessons(t *testing.T, owner string) map[string]int64 {
	t.Helper()
	w := newWorld(t, 100, nil)
	defer w.Close()
	text := client.Request{Tenant: "acme", Model: "m", MaxOutput: 1000}
	text.InputSize[tokens.Text] = 1000 * tokens.Scale
	open := client.Request{Tenant: "acme", Model: "m", Route: "/audio", InputTokens: 10, OpenOutput: true}
	for i := range 3 * 40 {
		teller := []string{"acme", "second", "third"}[i%3]
		for _, call := range []client.Request{text, open} {
			if owner == "" {
				continue
			}
			ask := &reserve.Ask{ID: "", Call: call}
			ask.Call.Tenant = teller
			if owner != "*" {
				ask.Owner = teller
				ask.Told = true
				ask.Call.Tenant = ""
				ask.Call.Key = "sk-" + teller
			}
			g := testkit.Must(w.Reserve(t.Context(), ask))(t)
			time.Sleep(time.Second)
			testkit.Must(w.Commit(ask.Owner, g.ID, client.End{Usage: client.Usage{Input: 3000, Output: 10}, Reported: true}))(t)
		}
	}
	got := map[string]int64{}
	spent := func() int64 {
		st, _ := w.gov.TenantState("other")
		return st.Budgets[0].Used
	}
	leases := func() int64 {
		sum := int64(0)
		for _, l := range w.gov.State().Pools[0].Leases {
			sum += l.Held
		}
		return sum
	}
	text.Tenant = "other"
	open.Tenant = "other"
	g := testkit.Must(w.Reserve(t.Context(), &reserve.Ask{Call: text}))(t)
	got["held of a prompt"] = leases()
	got["expected of an answer"] = spent() - got["held of a prompt"]
	time.Sleep(5 * time.Second)
	before := spent()
	testkit.Must(w.Commit("", g.ID, client.End{Outcome: client.Failed}))(t)
	got["guessed of an answer without a report"] = spent() - before
	testkit.Must(w.Reserve(t.Context(), &reserve.Ask{Call: open}))(t)
	got["held of an answer without a bound"] = leases()
	return got
}

// TestReserve_ToldHoldsNoSlotForLong: with its own key a tenant keeps a reservation no longer than streams may be silent without a sign of life, and no
// longer than an hour in all. Whoever may name any tenant is let do so.
func TestReserve_ToldHoldsNoSlotForLong(t *testing.T) {
	for name, c := range map[string]struct {
		told          bool
		ttl           time.Duration // that is asked for
		silent, alive time.Duration // when it ends without signs of life, and with them
	}{
		"told":         {true, time.Hour, 2 * time.Minute, time.Hour},
		"told shortly": {true, 10 * time.Second, 10 * time.Second, time.Hour},
		"believed":     {false, time.Hour, time.Hour, 0},
	} {
		for what, renew := range map[string]func(w *world, ask reserve.Ask) error{
			"nothing":  nil,
			"progress": func(w *world, ask reserve.Ask) error { return third(w.Progress(ask.Owner, "r", client.Produced{})) },
			"reserve":  func(w *world, ask reserve.Ask) error { return second(w.Reserve(context.Background(), &ask)) },
		} {
			testkit.Virtual(t, name+", "+what, func(t *testing.T) {
				w := newWorld(t, 10, func(p *tenants.Pool, _ *tenants.Tenant) { p.Concurrency = 1 })
				w.Idle = 2 * time.Minute
				defer w.Close()
				ask := reserve.Ask{ID: "r", Owner: "acme", Told: c.told, TTL: c.ttl, Call: client.Request{Key: "sk-acme", Model: "m"}}
				asks := ask
				g, err := w.Reserve(t.Context(), &asks)
				if err != nil || g.TTL != c.silent {
					t.Fatalf("%+v, %v; a ttl of %s is right", g, err, c.silent)
				}
				want := c.silent
				if renew != nil {
					want = c.alive
				}
				began := time.Now()
				for w.Open() > 0 && time.Since(began) < 3*time.Hour {
					time.Sleep(5 * time.Second)
					if renew != nil && renew(w, ask) != nil { // it has ended in this very instant
						break
					}
				}
				got := time.Since(began)
				if want > 0 && (got < want || got > want+10*time.Second) || want == 0 && got < 3*time.Hour {
					t.Errorf("it ended after %s, %s is right (0s: never)", got, want)
				}
			})
		}
	}
}
