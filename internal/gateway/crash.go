package gateway

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
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

// crashing lets a panic in the governor end the process, where net/http would recover.
func crashing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				crash(cause)
				panic(cause)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// stuckAfter is how long a pool may be busy without a break before it is taken to be stuck: less than
// probes wait.
const stuckAfter = 3 * time.Second

// live answers GET /livez: whether calls can be admitted and ended at all.
func (g *Gateway) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), stuckAfter)
	defer cancel()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for _, p := range g.world.Load().pools {
		for !g.gov.Free(p.Name) {
			select {
			case <-ctx.Done():
				http.Error(w, "pool "+p.Name+" is stuck: restart this process, and report what it logged", http.StatusServiceUnavailable)
				return
			case <-retry.C:
			}
		}
	}
	_, _ = w.Write([]byte("ok\n"))
}
