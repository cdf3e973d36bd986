package admission

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// A spent budget is refused in a way that SDKs do not retry, with the time of the
// reset in the tenant's own calendar; and then all goes on.
func TestBudgetIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := harness.Tenant("a", 1)
		a.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 2800, Per: tenants.Day}, {Unit: tenants.MicroUSD, Limit: 1e12, Per: tenants.Month}}
		var log strings.Builder
		s := harness.New(t, harness.World{Log: slog.NewJSONHandler(&log, nil), Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{a}, Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1_000_000, Output: 2_000_000}}}, Timezone: "Asia/Tokyo"})
		time.Sleep(10 * time.Hour)
		for range 2 {
			s.Call(t.Context(), "a", harness.Chat(false, 1400, `,"mock":{"output_tokens":1400}`)).WantOK(t)
		}
		budgets := s.Governor.State().Tenants[0].Budgets
		in := s.Charged("a", "input")
		out := s.Charged("a", "output")
		if budgets[0].Used != in+out || budgets[1].Used != in+2*out || in == 0 || out != 2800 {
			t.Errorf("%d in and %d out were charged, the budgets say %+v", in, out, budgets)
		}
		refusal := s.Call(t.Context(), "a", harness.Chat(true, 1400, ""))
		if refusal.Status != http.StatusTooManyRequests || harness.ErrorCode(refusal.Body) != "insufficient_quota" || refusal.Header.Get("x-should-retry") != "false" {
			t.Errorf("%d %v: %s", refusal.Status, refusal.Header, refusal.Body)
		}
		// It is 19:00 in Tokyo.
		if got := refusal.Header.Get("Retry-After"); got != "18000" {
			t.Errorf("Retry-After: %s, want five hours", got)
		}
		want := fmt.Sprintf("The budget of tenant a is spent (tokens per day: Limit 2800, Used %d, Requested ", in+out)
		if !strings.Contains(refusal.Body, want) || !strings.Contains(refusal.Body, "It resets at 2000-01-02T00:00:00+09:00 (in 5h0m).") {
			t.Errorf("%s", refusal.Body)
		}
		if !strings.Contains(log.String(), `"reason":"budget","axis":"tokens per day"`) {
			t.Errorf("the log does not name the budget: %s", log.String())
		}
		time.Sleep(5 * time.Hour)
		s.Call(t.Context(), "a", harness.Chat(true, 1400, "")).WantOK(t, "after the reset")
	})
}

// A budget of dollars holds the most that a call may cost at the tier that it asks for, and counts what it cost at the one that answered. Refusals
// write dollars.
func TestBudget_HoldsDollars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := harness.Tenant("a", 1)
		a.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 1_500_000, Per: tenants.Month}}
		price := tenants.Price{Input: 1_000_000, Output: 2_000_000, AudioOutput: 20_000_000, Tiers: []terms.Tier{{Name: "priority", Factor: 2500}}}
		s := harness.New(t, harness.World{
			Mock: mock.Config{FirstToken: time.Second}, Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{a}, Prices: []tenants.ModelPrice{{Model: "*", Price: price}},
		})
		var refusal harness.Answer
		for range 2 { // the first is held at half a dollar and some more, the second settled before
			go func() {
				time.Sleep(500 * time.Millisecond)
				if used := s.Governor.State().Tenants[0].Budgets[0].Used; used < 500_000 || used > 510_000 {
					t.Errorf("%d is held, want 10,000 of the dearest tokens at the dearest tier", used)
				}
				refusal = s.Call(t.Context(), "a", harness.Chat(false, 20_000, `,"service_tier":"priority"`))
			}()
			s.Call(t.Context(), "a", harness.Chat(false, 10_000, `,"service_tier":"priority","mock":{"output_tokens":20}`)).WantOK(t)
			synctest.Wait()
		}
		if used := s.Governor.State().Tenants[0].Budgets[0].Used; used != s.Charged("a", "input")+2*s.Charged("a", "output") {
			t.Errorf("%d is counted, want the usual price of the tier that answered", used)
		}
		if !strings.Contains(refusal.Body, "(usd per month: Limit $1.50, Used $0.50") || !strings.Contains(refusal.Body, ", Requested $1.00") {
			t.Errorf("%d: %s", refusal.Status, refusal.Body)
		}
	})
}

// On /v1/messages the error's code tells a spent budget from a busy minute, because its type is the
// same for both.
func TestMessages_SpentBudgetAndBusyMinuteDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := harness.Tenant("spent", 1)
		busy := harness.Tenant("busy", 1)
		spent.Budgets = []tenants.Budget{{Unit: tenants.Requests, Limit: 1, Per: tenants.Day}}
		busy.RPM = 1
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{spent, busy}})
		for name, want := range map[string]string{"spent": "insufficient_quota", "busy": "rate_limit_exceeded"} {
			for _, stream := range []bool{false, true} {
				a := s.CallTo(t.Context(), "/messages", name, harness.Chat(stream, 10, ""))
				if !stream && a.Status == http.StatusOK { // the one that is let in
					a = s.CallTo(t.Context(), "/messages", name, harness.Chat(stream, 10, ""))
				}
				if e := harness.ReadError(a.Body); a.Status != http.StatusTooManyRequests || e.Type != "rate_limit_error" || e.Code != want {
					t.Errorf("%s: %d %s, want the code %s", name, a.Status, a.Body, want)
				}
			}
		}
	})
}

// While nothing can be kept nobody is let in, and nothing stays behind.
func TestStoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		journal := &failingJournal{err: full}
		s := harness.New(t, harness.World{Pool: harness.Pool(60_000, 0, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Journal: journal})
		refusal := s.Call(t.Context(), "a", harness.Chat(false, 100, ""))
		if refusal.Status != http.StatusServiceUnavailable || harness.ErrorCode(refusal.Body) != "store_unavailable" || refusal.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v: %s", refusal.Status, refusal.Header, refusal.Body)
		}
		if used := s.Governor.State().Pools[0].Axes[0].Used; used != 0 {
			t.Errorf("the pool counts %d of what was refused", used)
		}
		if n := s.Mock.Stats().Requests; n != 0 {
			t.Errorf("%d calls reached the model server", n)
		}
		journal.err = nil
		if a := s.Call(t.Context(), "a", harness.Chat(false, 100, "")); a.Status != http.StatusOK || journal.kept != 2 {
			t.Errorf("with room again: %d, %d records: %s", a.Status, journal.kept, a.Body)
		}
	})
}

// failingJournal is a journal that keeps nothing while it has an error.
type failingJournal struct {
	err  error
	kept int
}

func (f *failingJournal) Append(record.Record) error {
	if f.err == nil {
		f.kept++
	}
	return f.err
}

// To count tokens takes none: providers do it for nothing, and beside the limits on
// tokens. It is a request all the same.
//
// Catches: prompts that are counted before they are sent, and charged both times.
func TestCountingTokensTakesNone(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
		t.TPM = 1000
		t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1000, Per: tenants.Day}}
	})}, Pool: sockets.Pool(func(p *tenants.Pool) { p.TPM = 1000 })})
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("some words ", 50_000) + `"}]}`
	for range 3 {
		if status, text := s.SendAs("acme", "POST", "/v1/messages/count_tokens", "application/json", body); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	s.WaitIdle()
	st, _ := s.Governor.TenantState("acme")
	if u := s.ChargedUsage("acme"); u != (governor.Usage{}) || st.Budgets[0].Used != 0 || s.Used("acme")["tokens"] != 0 {
		t.Errorf("to count tokens took %+v, and %d of a budget", u, st.Budgets[0].Used)
	}
	if n := s.Used("acme")["requests"]; n != 3 {
		t.Errorf("three calls are %d requests", n)
	}
}
