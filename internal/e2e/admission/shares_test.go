package admission

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// fourTenants have weights 4:2:1:1 and may wait.
func fourTenants() []tenants.Tenant {
	var list []tenants.Tenant
	for i, weight := range []int64{4, 2, 1, 1} {
		t := harness.Tenant(string(rune('a'+i)), weight)
		t.MaxWait = time.Hour
		list = append(list, t)
	}
	return list
}

// keepBusy keeps so many calls of a tenant in the air until ctx ends.
func keepBusy(ctx context.Context, wg *sync.WaitGroup, workers int, call func(context.Context)) {
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				call(ctx)
			}
		})
	}
}

// Weights 4:2:1:1, the last idle, the others flooding: they receive 4:2:1 of
// the whole limit, nothing is left to the idle one, and when it returns it is
// served within half a second. In virtual time, through the whole stack.
func TestSharesThroughTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tpm = 600_000
		w := harness.World{Pool: harness.Pool(tpm, 0, 0), Tenants: fourTenants(), Mock: mock.Config{TPM: tpm}}
		w.Pool.HeadroomPPM = 0
		s := harness.New(t, w)
		body := harness.Chat(false, 1000, `,"mock":{"output_tokens":985}`) // and 15 of prompt
		s.Call(t.Context(), "a", body)                                     // calibrates the prompt

		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			keepBusy(ctx, &wg, 12, func(ctx context.Context) {
				if a := s.Call(ctx, name, body); a.Err == nil && a.Status != http.StatusOK {
					t.Errorf("status %d: %s", a.Status, a.Body)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		before := received(s)
		minutes := testkit.Rounds(3, 5)
		time.Sleep(time.Duration(minutes) * time.Minute)
		after := received(s)
		for i, share := range []float64{4. / 7, 2. / 7, 1. / 7} {
			got := float64(after[i]-before[i]) / float64(minutes*tpm)
			t.Logf("%c received %.4f of the limit, ideal %.4f", 'a'+i, got, share)
			if math.Abs(got-share) > 0.02*share {
				t.Errorf("%c received %.4f of the limit, want %.4f ± 2 %%", 'a'+i, got, share)
			}
		}
		back := time.Now()
		if a := s.Call(t.Context(), "d", body); a.Status != http.StatusOK {
			t.Errorf("the idle tenant returned and got %d: %s", a.Status, a.Body)
		}
		t.Logf("the idle tenant was served %v after it returned", time.Since(back))
		if waited := time.Since(back); waited > 500*time.Millisecond {
			t.Errorf("the idle tenant waited %v when it returned", waited)
		}
		stop()
		wg.Wait()
		s.CheckIdle()
		if st := s.Mock.Stats(); st.Refused != 0 || st.WindowTokensPeak > tpm {
			t.Errorf("the model server refused %d; its fullest minute had %d tokens of %d", st.Refused, st.WindowTokensPeak, tpm)
		}
	})
}

func received(s *harness.Stack) (sum [4]int64) {
	for i := range sum {
		name := string(rune('a' + i))
		sum[i] = s.Charged(name, "input") + s.Charged(name, "output")
	}
	return sum
}
