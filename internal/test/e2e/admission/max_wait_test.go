package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// No call is answered later than its tenant's max_wait or its own header says, whatever its caller
// says of itself, and whether its place was kept or not. Where max_wait is 0, a caller that comes
// back to its place may wait for ticket_wait, also bounded by the header.
func TestMaxWait_NoAnswerIsLater(t *testing.T) {
	for seed := range uint64(6) {
		testkit.Virtual(t, strconv.FormatUint(seed, 10), func(t *testing.T) { noAnswerIsLater(t, seed) })
	}
}

// waiting is a kind of caller, and how long its calls took at most.
type waiting struct {
	policy   time.Duration // its tenant's max_wait
	header   string
	identity string // the header by which its retries are known, if any
	first    time.Duration
	again    time.Duration
	answers  int
}

// bound is how late a call may be answered.
func (w *waiting) bound(again bool, ticketWait time.Duration) time.Duration {
	bound := w.policy
	if w.policy == 0 && (again || w.identity == "") { // who says nothing may have come back
		bound = ticketWait
	}
	if hint, err := time.ParseDuration(w.header); err == nil {
		bound = min(bound, hint)
	}
	return bound
}

func noAnswerIsLater(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := harness.World{Pool: harness.Pool(60_000, 0, 0), Mock: mock.Config{TPM: 60_000}}
	if seed%3 == 2 { // the provider refuses too, and calls are admitted again
		w.Mock.TPM = 40_000
	}
	policies := []time.Duration{0, 500 * time.Millisecond, 2 * time.Second}
	for i, policy := range policies {
		a := harness.Tenant(string(rune('a'+i)), 1+int64(rng.IntN(4)))
		a.MaxWait = policy
		if rng.IntN(3) == 0 {
			a.RPM = 30
		}
		w.Tenants = append(w.Tenants, a)
	}
	s := harness.New(t, w)

	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var group sync.WaitGroup
	var kinds []*waiting
	for i, policy := range policies {
		for _, header := range []string{"", "0s", "500ms", "3s"} {
			for _, identity := range []string{"", "Idempotency-Key", "X-Stainless-Retry-Count"} {
				kind := &waiting{policy: policy, header: header, identity: identity}
				kinds = append(kinds, kind)
				id := len(kinds)
				group.Go(func() { kind.call(ctx, s, w.Tenants[i].Name, id) })
			}
		}
	}
	group.Wait()
	for _, kind := range kinds {
		what := fmt.Sprintf("max_wait %v, header %q, known by %q", kind.policy, kind.header, kind.identity)
		if most := kind.bound(false, w.Pool.TicketWait); kind.first > most {
			t.Errorf("%s: a first call was answered after %v, want at most %v", what, kind.first, most)
		}
		if most := kind.bound(true, w.Pool.TicketWait); kind.again > most {
			t.Errorf("%s: a call that came back was answered after %v, want at most %v", what, kind.again, most)
		}
	}
}

// call sends calls that come back when told, until ctx ends, and notes how long the answers took.
func (w *waiting) call(ctx context.Context, s *harness.Stack, tenant string, id int) {
	for n := 0; ctx.Err() == nil; n++ {
		for retry := 0; ctx.Err() == nil; retry++ {
			var header []string
			switch w.identity {
			case "Idempotency-Key":
				header = append(header, w.identity, fmt.Sprintf("%d-%d", id, n))
			case "X-Stainless-Retry-Count":
				header = append(header, w.identity, strconv.Itoa(retry))
			}
			if w.header != "" {
				header = append(header, "X-Llmgov-Max-Wait", w.header)
			}
			began := time.Now()
			a := s.Call(ctx, tenant, harness.Chat(false, 800, `,"mock":{"output_tokens":780}`), header...)
			if a.Err != nil {
				return
			}
			took := time.Since(began)
			w.answers++
			if retry > 0 {
				w.again = max(w.again, took)
			} else {
				w.first = max(w.first, took)
			}
			if a.Status == http.StatusOK {
				break
			}
			seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
			time.Sleep(time.Duration(min(seconds, 20))*time.Second + harness.RandomPause(5, 35))
		}
		time.Sleep(harness.RandomPause(10, 50))
	}
}
