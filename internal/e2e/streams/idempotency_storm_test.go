package streams

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A storm of twins that come, hang up and come back: of each name one call at most is
// upstream at any time, every name is served in the end, and none is stuck.
func TestIdempotencyKey_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names, twins = 12, 25
		var upstream, most [names]atomic.Int64
		w := harness.World{
			Mock: mock.Config{TokensPerSecond: 50}, Pool: harness.Pool(0, 0, 5),
			Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)},
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
					n, err := strconv.Atoi(r.Header.Get("X-Title"))
					if err != nil {
						return next.RoundTrip(r)
					}
					most[n].Store(max(most[n].Load(), upstream[n].Add(1)))
					resp, err := next.RoundTrip(r)
					if err != nil {
						upstream[n].Add(-1)
						return nil, err
					}
					resp.Body = &leaving{ReadCloser: resp.Body, leave: func() { upstream[n].Add(-1) }}
					return resp, nil
				})
			},
		}
		for i := range w.Tenants {
			w.Tenants[i].MaxWait = 2 * time.Second
		}
		s := harness.New(t, w)
		var served, conflicts atomic.Int64
		var wg sync.WaitGroup
		for n := range names {
			for twin := range twins {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(n), uint64(twin)))
					// both tenants have the same keys
					tenant := []string{"a", "b"}[n%2]
					key := fmt.Sprint(n / 2)
					for {
						ctx, cancel := context.WithCancel(t.Context())
						if rng.IntN(3) == 0 {
							time.AfterFunc(time.Duration(rng.Int64N(int64(3*time.Second))), cancel)
						}
						a := s.Call(ctx, tenant, harness.Chat(n%3 == 0, 60, ""), idempotencyKey, key, "X-Title", strconv.Itoa(n))
						gone := ctx.Err() != nil
						cancel()
						switch {
						case a.Status == http.StatusConflict:
							conflicts.Add(1)
						case a.Status == http.StatusOK && a.Err == nil:
							served.Add(1)
							return
						case a.Status != http.StatusTooManyRequests && !gone:
							t.Errorf("%d %v: %s", a.Status, a.Err, a.Body)
						}
						back, _ := strconv.Atoi(a.Header.Get("Retry-After"))
						time.Sleep(time.Duration(back)*time.Second + harness.RandomPause(1, 400))
					}
				})
			}
		}
		wg.Wait()
		s.CheckIdle()
		checkServedOnce(s, names*twins, &most, served.Load())
		t.Logf("%d were served, %d times one was told that its twin runs", served.Load(), conflicts.Load())
		if conflicts.Load() < names*twins {
			t.Errorf("only %d conflicts: the storm was none", conflicts.Load())
		}
	})
}

func checkServedOnce(s *harness.Stack, want int64, most *[12]atomic.Int64, served int64) {
	s.T.Helper()
	for n := range most {
		if got := most[n].Load(); got != 1 {
			s.T.Errorf("call %d was upstream %d times at once", n, got)
		}
	}
	if served != want {
		s.T.Errorf("%d were served, want %d", served, want)
	}
}

// leaving is a body that tells when it is closed.
type leaving struct {
	io.ReadCloser
	leave func()
	once  sync.Once
}

func (b *leaving) Close() error {
	defer b.once.Do(b.leave)
	return b.ReadCloser.Close()
}
