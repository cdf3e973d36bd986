package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
	f := newFleet(t, 2, "p", "tpm", sharedLimit, server.URL())
	config := filepath.Join(f.dir, "llmgov.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	budgets := strings.Replace(string(text), "max_queue: 100", "max_queue: 100, budgets: [{tokens: 100000000, per: hour}]", 1)
	if err := os.WriteFile(config, []byte(budgets), 0o600); err != nil {
		t.Fatal(err)
	}

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
	if err := syscall.Kill(server.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(16 * time.Second)
	if err := syscall.Kill(server.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
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

func (p *pauses) call(ctx context.Context, g *process, tenant string) {
	body := `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"max_tokens":480}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	resp.Body.Close()
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	p.mu.Lock()
	p.answers[resp.StatusCode]++
	p.longest[resp.StatusCode] = max(p.longest[resp.StatusCode], after)
	p.mu.Unlock()
	if resp.StatusCode != http.StatusOK {
		time.Sleep(50 * time.Millisecond)
	}
}
