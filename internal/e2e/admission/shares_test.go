package admission

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
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

// The same over real sockets in real time. A busy machine, which keeps callers from asking, can
// spoil that, but not make it right: so it may be tried again.
func TestSharesInRealTime(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	for try := 1; ; try++ {
		wrong := sharesInRealTime(t)
		if wrong == nil {
			return
		}
		if try == 3 {
			t.Fatal(wrong)
		}
		t.Logf("try %d: %v", try, wrong)
	}
}

func sharesInRealTime(t *testing.T) (wrong []string) {
	const tpm = 600_000 // 10,000 a second: 50 calls of 200
	s := sockets.New(t, sockets.World{Mock: mock.Config{TPM: tpm}, Pool: harness.Pool(tpm, 0, 0), Tenants: fourTenants()})

	var served [4]atomic.Int64
	call := func(i int) func(context.Context) {
		return func(ctx context.Context) {
			req := s.Request(http.MethodPost, "/v1/chat/completions", harness.Chat(false, 185, `,"mock":{"output_tokens":185}`),
				"Authorization", "Bearer "+string(rune('a'+i)))
			if resp, err := s.Client.Do(req.WithContext(ctx)); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					served[i].Add(1)
				}
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		keepBusy(ctx, &wg, 8, call(i))
	}
	// Real time, for once, is what is measured: a start of two seconds, then
	// eight that count.
	<-time.After(2 * time.Second)
	var before, got [4]int64
	for i := range served {
		before[i] = served[i].Load()
	}
	<-time.After(8 * time.Second)
	total := int64(0)
	for i := range served {
		got[i] = served[i].Load() - before[i]
		total += got[i]
	}
	back := time.Now()
	call(3)(t.Context())
	returned := time.Since(back)
	stop()
	wg.Wait()

	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	t.Logf("served %v of %d; the idle tenant after %v", got[:3], total, returned)
	for i, share := range []float64{4. / 7, 2. / 7, 1. / 7} {
		if is := float64(got[i]) / float64(total); math.Abs(is-share) > 0.1*share {
			complain("%c was served %.3f, want %.3f ± 10 %%", 'a'+i, is, share)
		}
	}
	// Half a second is what virtual time shows; a busy machine may take longer.
	if served[3].Load() != 1 || returned > 2*time.Second {
		complain("the idle tenant returned: served %d times, after %v", served[3].Load(), returned)
	}
	if whole := float64(total) * 200 / 8 * 60 / tpm; whole < 0.8 {
		complain("the flood got %.2f of the limit, want all of it", whole)
	}
	if st := s.Mock.Stats(); st.Refused != 0 {
		t.Errorf("the model server, given the same limit, refused %d", st.Refused)
	}
	return wrong
}
