package gateway

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A panic in a handler ends one call, and the gateway goes on. But one in the governor leaves locks that
// all other calls would wait for, and books that may be half written: the process ends, as it does when
// the governor's own goroutines panic. Whoever supervises it starts another, and the calls in flight count
// as those of any process that died.

// crash ends the process with what has panicked, if that was in the governor. It is called by deferred
// functions, which find the panicking ones still on the stack.
func crash(cause any) {
	if !governing() {
		return
	}
	go panic(fmt.Sprintf("%v\n\n%s", cause, debug.Stack())) // where nobody recovers
	select {}
}

// governing reports whether the governor, or what it calls, is on the stack.
func governing() bool {
	const module = "github.com/llmgov/llmgov/"
	callers := make([]uintptr, 256)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		f, more := frames.Next()
		if name, ours := strings.CutPrefix(f.Function, module); ours && strings.HasPrefix(name, "governor.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// crashed, deferred, lets a panic in the governor end the process. It lets others pass, which net/http recovers.
func crashed() {
	if cause := recover(); cause != nil {
		crash(cause)
		panic(cause)
	}
}

// crashing is a handler in which a panic in the governor ends the process.
func crashing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer crashed()
		h.ServeHTTP(w, r)
	})
}

// stuckAfter is how long a pool's lock may be waited for before the pool is taken to be stuck: less than
// probes wait.
const stuckAfter = 3 * time.Second

// pulse finds out whether calls can be admitted and ended at all.
type pulse struct {
	mu   sync.Mutex
	felt chan struct{} // closed when the pools have been reached; nil = nobody tries to
}

// feel returns what is closed once every pool has been reached. However many ask, one goroutine tries; it
// ends when the last pool's lock is free, if ever.
func (p *pulse) feel(g *Gateway) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.felt != nil {
		return p.felt
	}
	felt := make(chan struct{})
	p.felt = felt
	go func() {
		for _, pool := range g.world.Load().pools {
			g.gov.Touch(pool.Name)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.felt = nil
		close(felt)
	}()
	return felt
}

// Live answers GET /livez.
func (g *Gateway) Live(w http.ResponseWriter, r *http.Request) {
	patience := time.NewTimer(stuckAfter)
	defer patience.Stop()
	select {
	case <-g.pulse.feel(g):
		_, _ = w.Write([]byte("ok\n"))
	case <-patience.C:
		http.Error(w, "a pool is stuck: restart this process, and report what it logged", http.StatusServiceUnavailable)
	case <-r.Context().Done():
	}
}
