package e2e

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// A spent budget is refused in a way that SDKs do not retry, with the time of the
// reset in the tenant's own calendar; and then all goes on.
func TestBudgetIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := tenant("a", 1)
		a.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 2800, Per: tenants.Day}, {Unit: tenants.MicroUSD, Limit: 1e12, Per: tenants.Month}}
		var log strings.Builder
		s := newStack(t, world{log: slog.NewJSONHandler(&log, nil), pool: pool(0, 0, 100), tenants: []tenants.Tenant{a}, prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1_000_000, Output: 2_000_000}}}, zone: "Asia/Tokyo"})
		defer s.close()
		time.Sleep(10 * time.Hour)
		for range 2 {
			if a := s.call(t.Context(), "a", chat(false, 1400, `,"mock":{"output_tokens":1400}`)); a.status != http.StatusOK {
				t.Fatalf("%d: %s", a.status, a.body)
			}
		}
		budgets := s.gov.State().Tenants[0].Budgets
		in := s.charged("a", "input")
		out := s.charged("a", "output")
		if budgets[0].Used != in+out || budgets[1].Used != in+2*out || in == 0 || out != 2800 {
			t.Errorf("%d in and %d out were charged, the budgets say %+v", in, out, budgets)
		}
		refusal := s.call(t.Context(), "a", chat(true, 1400, ""))
		if refusal.status != http.StatusTooManyRequests || errorCode(refusal.body) != "insufficient_quota" || refusal.header.Get("x-should-retry") != "false" {
			t.Errorf("%d %v: %s", refusal.status, refusal.header, refusal.body)
		}
		// It is 19:00 in Tokyo.
		if got := refusal.header.Get("Retry-After"); got != "18000" {
			t.Errorf("Retry-After: %s, want five hours", got)
		}
		want := fmt.Sprintf("The budget of tenant a is spent (tokens per day: Limit 2800, Used %d, Requested ", in+out)
		if !strings.Contains(refusal.body, want) || !strings.Contains(refusal.body, "It resets at 2000-01-02T00:00:00+09:00.") {
			t.Errorf("%s", refusal.body)
		}
		if !strings.Contains(log.String(), `"reason":"budget","axis":"tokens per day"`) {
			t.Errorf("the log does not name the budget: %s", log.String())
		}
		time.Sleep(5 * time.Hour)
		if a := s.call(t.Context(), "a", chat(true, 1400, "")); a.status != http.StatusOK {
			t.Errorf("after the reset: %d %s", a.status, a.body)
		}
		s.checkIdle()
	})
}

// On /v1/messages the error's code tells a spent budget from a busy minute, because its type is the
// same for both.
func TestMessages_SpentBudgetAndBusyMinuteDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := tenant("spent", 1)
		busy := tenant("busy", 1)
		spent.Budgets = []tenants.Budget{{Unit: tenants.Requests, Limit: 1, Per: tenants.Day}}
		busy.RPM = 1
		s := newStack(t, world{pool: pool(0, 0, 100), tenants: []tenants.Tenant{spent, busy}})
		defer s.close()
		for name, want := range map[string]string{"spent": "insufficient_quota", "busy": "rate_limit_exceeded"} {
			for _, stream := range []bool{false, true} {
				a := s.callTo(t.Context(), "/messages", name, chat(stream, 10, ""))
				if !stream && a.status == http.StatusOK { // the one that is let in
					a = s.callTo(t.Context(), "/messages", name, chat(stream, 10, ""))
				}
				if e := readError(a.body); a.status != http.StatusTooManyRequests || e.Type != "rate_limit_error" || e.Code != want {
					t.Errorf("%s: %d %s, want the code %s", name, a.status, a.body, want)
				}
			}
		}
		s.checkIdle()
	})
}

// While nothing can be kept nobody is let in, and nothing stays behind.
func TestStoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		journal := &failing{err: full}
		s := newStack(t, world{pool: pool(60_000, 0, 100), tenants: []tenants.Tenant{tenant("a", 1)}, journal: journal})
		defer s.close()
		refusal := s.call(t.Context(), "a", chat(false, 100, ""))
		if refusal.status != http.StatusServiceUnavailable || errorCode(refusal.body) != "store_unavailable" || refusal.header.Get("Retry-After") != "1" {
			t.Errorf("%d %v: %s", refusal.status, refusal.header, refusal.body)
		}
		if used := s.gov.State().Pools[0].Axes[0].Used; used != 0 {
			t.Errorf("the pool counts %d of what was refused", used)
		}
		if n := s.mock.Stats().Requests; n != 0 {
			t.Errorf("%d calls reached the model server", n)
		}
		journal.err = nil
		if a := s.call(t.Context(), "a", chat(false, 100, "")); a.status != http.StatusOK || journal.kept != 2 {
			t.Errorf("with room again: %d, %d records: %s", a.status, journal.kept, a.body)
		}
		s.checkIdle()
	})
}
