package operations

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// journalOf is a journal that does something else than to keep.
type journalOf func()

func (j journalOf) Append(record.Record) error {
	j()
	return nil
}

// A panic in the governor ends the process: locks are held that all others would wait for. The log has its line, and those
// of the last moment.
func TestPanicInTheGovernorEndsTheProcess(t *testing.T) {
	const role = "LLMGOV_TEST_PANICS"
	if os.Getenv(role) != "" {
		log, end := logging.New(os.Stderr, logging.JSON)
		crash.Finally(end)
		s := harness.Start(t, harness.World{
			Pool: harness.Pool(60_000, 0, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Log: log.Handler(),
			Journal: journalOf(func() {
				for range 50 {
					log.Info("before")
				}
				panic("the books are broken")
			}),
		})
		s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		t.Fatal("the process goes on")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "panic: the books are broken") || !strings.Contains(string(out), "governor.(*call).keepStart") {
		t.Errorf("exit code %d, %v: %.3000s", code, err, out)
	}
	if n := strings.Count(string(out), `"msg":"before"`); n != 50 || !strings.Contains(string(out), `"msg":"panic","request_id":"req_`) {
		t.Errorf("the log has %d lines of 50 before that of the panic: %.3000s", n, out)
	}
}

// stallingClock is the machine's clock, but for a timer that is not made until release is closed. A
// pool sets its timers under its lock.
type stallingClock struct {
	governor.SystemClock
	stall          atomic.Bool
	stuck, release chan struct{}
}

func (c *stallingClock) AfterFunc(d time.Duration, f func()) governor.Timer {
	if c.stall.CompareAndSwap(true, false) {
		close(c.stuck)
		<-c.release
	}
	return c.SystemClock.AfterFunc(d, f)
}

// A pool whose lock nobody gets makes /livez fail, so that the process is started anew.
func TestLivezOfAStuckPool(t *testing.T) {
	t.Parallel() // in real time: in virtual time who waits for a lock holds up the clock
	clock := &stallingClock{stuck: make(chan struct{}), release: make(chan struct{})}
	s := harness.Start(t, harness.World{Pool: harness.Pool(60_000, 0, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Clock: clock})
	admin := s.AdminAPI(admin.Options{})
	live := func() int {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/livez", nil))
		return w.Code
	}
	if code := live(); code != http.StatusOK {
		t.Errorf("of a pool that is free /livez says %d", code)
	}
	clock.stall.Store(true)
	var calling sync.WaitGroup
	calling.Go(func() { s.Call(t.Context(), "a", harness.Chat(false, 10, "")) })
	<-clock.stuck
	if code := live(); code != http.StatusServiceUnavailable {
		t.Errorf("of a pool that is stuck /livez says %d", code)
	}
	close(clock.release)
	calling.Wait()
	if code := live(); code != http.StatusOK {
		t.Errorf("of a pool that is free again /livez says %d", code)
	}
}
