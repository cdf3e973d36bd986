package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// promises counts callers that come back when they were told to.
type promises struct {
	mu           sync.Mutex
	kept, broken int
	second       []time.Duration // how long they waited then
}

// comeBack calls as an SDK does that obeys Retry-After: refused, it sleeps for so
// many whole seconds, and says on its next try that it is a retry. mark names a
// header that tells one call from another, or the count of retries.
func (p *promises) comeBack(ctx context.Context, s *harness.Stack, tenant, body, mark, id string) {
	for retry := 0; ctx.Err() == nil; retry++ {
		value := id
		if mark == "X-Stainless-Retry-Count" {
			value = strconv.Itoa(retry)
		}
		began := time.Now()
		a := s.Call(ctx, tenant, body, mark, value)
		if a.Err != nil {
			return
		}
		if retry > 0 {
			p.mu.Lock()
			if a.Status == http.StatusOK {
				p.kept++
				p.second = append(p.second, time.Since(began))
			} else {
				p.broken++
			}
			p.mu.Unlock()
		}
		if a.Status == http.StatusOK {
			return
		}
		seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.Status != http.StatusTooManyRequests || err != nil {
			s.T.Errorf("status %d, Retry-After %q: %s", a.Status, a.Header.Get("Retry-After"), a.Body)
			return
		}
		time.Sleep(time.Duration(seconds)*time.Second + harness.RandomPause(5, 35))
	}
}

// Callers that cannot wait, but come back when they are told to, are served then:
// 95 % at least if they can be recognised, and the pool is full and shared by weight
// all along. Of callers that say nothing of themselves, a new one may take the place
// of one that comes back. Mutation seen: with TicketWait 0 less than half are served.
func TestPromisesAreKept(t *testing.T) {
	for mark, least := range map[string]float64{"X-Stainless-Retry-Count": 0.95, "Idempotency-Key": 0.95, "User-Agent": 0.7} {
		t.Run(mark, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { promisesAreKept(t, mark, least) })
		})
	}
}

func promisesAreKept(t *testing.T, mark string, least float64) {
	const tpm = 600_000
	minutes := testkit.Rounds(2, 4)
	w := harness.World{Pool: harness.Pool(tpm, 0, 0), Mock: mock.Config{TPM: tpm}}
	w.Pool.HeadroomPPM = 0
	for i, weight := range []int64{4, 2, 1, 1} {
		w.Tenants = append(w.Tenants, harness.Tenant(string(rune('a'+i)), weight))
	}
	s := harness.New(t, w)
	defer s.Close()
	body := harness.Chat(false, 1000, `,"mock":{"output_tokens":985}`)

	var p promises
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b", "c"} {
		for worker := range 12 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					p.comeBack(ctx, s, name, body, mark, fmt.Sprintf("%d-%d-%d", i, worker, n))
					time.Sleep(harness.RandomPause(10, 50))
				}
			})
		}
	}
	time.Sleep(2 * time.Minute)
	before := received(s)
	p.mu.Lock()
	p.kept = 0
	p.broken = 0
	p.second = nil
	p.mu.Unlock()
	time.Sleep(time.Duration(minutes) * time.Minute)
	after := received(s)
	p.mu.Lock()
	slices.Sort(p.second)
	t.Logf("%s: of those who came back when told %d were served, %d refused again; the second wait is %v at p95",
		mark, p.kept, p.broken, p.second[len(p.second)*95/100])
	if kept := float64(p.kept) / float64(p.kept+p.broken); kept < least || p.kept < 125*minutes {
		t.Errorf("only %.3f of %d promises were kept", kept, p.kept+p.broken)
	}
	p.mu.Unlock()
	for i, share := range []float64{4. / 7, 2. / 7, 1. / 7} {
		got := float64(after[i]-before[i]) / float64(minutes*tpm)
		t.Logf("%c received %.4f of the limit, ideal %.4f", 'a'+i, got, share)
		if got < 0.95*share || got > 1.05*share {
			t.Errorf("%c received %.4f of the limit, want %.4f ± 5 %%", 'a'+i, got, share)
		}
	}
	stop()
	wg.Wait()
	s.CheckIdle()
	if st := s.Mock.Stats(); st.Refused != 0 || st.WindowTokensPeak > tpm {
		t.Errorf("the model server refused %d; its fullest minute had %d tokens of %d", st.Refused, st.WindowTokensPeak, tpm)
	}
}

// Background calls leave the reserved slots free, and interactive calls of the
// same tenant go first.
func TestBackgroundStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := harness.World{Pool: harness.Pool(0, 0, 8), Mock: mock.Config{FirstToken: 10 * time.Second}}
		w.Pool.InteractiveReserve = 3
		w.Tenants = []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)}
		for i := range w.Tenants {
			w.Tenants[i].MaxWait = time.Hour
		}
		s := harness.New(t, w)
		defer s.Close()
		body := harness.Chat(false, 10, "")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		keepBusy(ctx, &wg, 20, func(ctx context.Context) { s.Call(ctx, "a", body, "X-Llmgov-Priority", "background") })
		time.Sleep(time.Minute)
		if running := s.Governor.State().Pools[0].Running; running != 5 {
			t.Errorf("%d background calls run, want 5 of 8 slots", running)
		}
		for _, name := range []string{"a", "b", "a"} { // also of the tenant that floods
			began := time.Now()
			a := s.Call(t.Context(), name, body)
			if wait := time.Since(began); a.Status != http.StatusOK || wait > 10*time.Second {
				t.Errorf("an interactive call of %s got %d after %v", name, a.Status, wait)
			}
		}
		stop()
		wg.Wait()
		s.CheckIdle()
	})
}
