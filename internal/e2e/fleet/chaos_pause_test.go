package fleet

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestChaosPause: while the store stands still for 16 s, and when it is back, no caller of a pool with
// budgets is told to come back later than the pool's minutes need; and for want of the store, within
// seconds.
func TestChaosPause(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes a minute; make chaos")
	}
	server := redistest.New(t)
	limits := tokensShared + ", budgets: [{tokens: 100000000, per: hour}]"
	f := newFlooded(t, 2, "p", limits, tokensCounted, server.URL())
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	p := pauses{longest: map[int]int{}, answers: map[int]int{}}
	for _, g := range f.gateways {
		for i := range 24 {
			callers.Go(func() {
				for ctx.Err() == nil {
					p.call(ctx, g, "ab"[i%2:i%2+1])
				}
			})
		}
	}
	time.Sleep(10 * time.Second)
	testkit.OK(t, syscall.Kill(server.Pid(), syscall.SIGSTOP))
	time.Sleep(16 * time.Second)
	testkit.OK(t, syscall.Kill(server.Pid(), syscall.SIGCONT))
	time.Sleep(15 * time.Second)
	stop()
	callers.Wait()
	t.Logf("answers %v, the longest Retry-After %v s", p.answers, p.longest)
	if p.answers[http.StatusServiceUnavailable] == 0 || p.longest[http.StatusServiceUnavailable] > 2 || p.longest[http.StatusTooManyRequests] > 120 {
		t.Errorf("answers %v, the longest Retry-After %v s", p.answers, p.longest)
	}
}

// pauses is the longest Retry-After in seconds, and the number of answers, by status.
type pauses struct {
	mu               sync.Mutex
	longest, answers map[int]int
}

func (p *pauses) call(ctx context.Context, g *gateway, tenant string) {
	answer, err := g.call(ctx, tenant, longCall)
	if err != nil {
		return
	}
	after, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	p.mu.Lock()
	p.answers[answer.Status]++
	p.longest[answer.Status] = max(p.longest[answer.Status], after)
	p.mu.Unlock()
	if answer.Status != http.StatusOK {
		time.Sleep(50 * time.Millisecond)
	}
}
