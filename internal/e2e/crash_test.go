package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/tenants"
)

// journalOf is a journal that does something else than to keep.
type journalOf func()

func (j journalOf) Append(governor.Record) error {
	j()
	return nil
}

// A panic in the governor ends the process: locks are held that all others would wait for.
func TestPanicInTheGovernorEndsTheProcess(t *testing.T) {
	const role = "LLMGOV_TEST_PANICS"
	if os.Getenv(role) != "" {
		s := newStack(t, world{pool: pool(60_000, 0, 100), tenants: []tenants.Tenant{tenant("a", 1)}, journal: journalOf(func() { panic("the books are broken") })})
		s.call(t.Context(), "a", chat(false, 5, ""))
		t.Fatal("the process goes on")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "panic: the books are broken") || !strings.Contains(string(out), "governor.(*Governor).acquire") {
		t.Errorf("exit code %d, %v: %.3000s", code, err, out)
	}
}

// observerOf is told of all that the governor decides.
type observerOf func(governor.Event)

func (o observerOf) Observe(e governor.Event) { o(e) }

// A pool whose lock nobody gets makes /livez fail, so that the process is started anew.
func TestLivezOfAStuckPool(t *testing.T) {
	t.Parallel() // in real time: in virtual time who waits for a lock holds up the clock
	stuck, release := make(chan struct{}), make(chan struct{})
	s := newStack(t, world{pool: pool(60_000, 0, 100), tenants: []tenants.Tenant{tenant("a", 1)}, recorder: observerOf(func(e governor.Event) {
		if e.Kind == governor.EventThrottled { // while the lock is held
			close(stuck)
			<-release
		}
	})})
	defer s.close()
	admin := s.adminAPI(admin.Options{})
	live := func() int {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/livez", nil))
		return w.Code
	}
	if code := live(); code != http.StatusOK {
		t.Errorf("of a pool that is free /livez says %d", code)
	}
	var throttling sync.WaitGroup
	throttling.Go(func() { s.gov.Throttle("p", []governor.Cut{{Until: time.Now().Add(time.Minute)}}) })
	<-stuck
	if code := live(); code != http.StatusServiceUnavailable {
		t.Errorf("of a pool that is stuck /livez says %d", code)
	}
	close(release)
	throttling.Wait()
	if code := live(); code != http.StatusOK {
		t.Errorf("of a pool that is free again /livez says %d", code)
	}
}
