// Package crash ends the process when a call has panicked in the governor. What must not be lost even then, the last lines of the
// log, it has written first, see [Finally].
//
// A panic in a handler ends one call, and the process goes on. But one in the governor leaves locks that
// all other calls would wait for, and books that may be half written: the process ends, as it does when
// the governor's own goroutines panic. Whoever supervises it starts another, and the calls in flight count
// as those of any process that died.
package crash

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// patience bounds how long the end waits for what is run before it.
const patience = time.Second

var last atomic.Pointer[func()]

// Finally has f run right before the process ends without draining: by a panic in the governor, or by a second signal. f
// may be called several times at once. Of several functions the last one counts.
func Finally(f func()) { last.Store(&f) }

// Finish runs what Finally was given. It waits no longer than a second, because a log that nobody reads must not keep
// the process.
func Finish() {
	f := last.Load()
	if f == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		(*f)()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// Ends ends the process with what has panicked, if that was in the governor. It is called by deferred
// functions, which find the panicking ones still on the stack.
func Ends(cause any) {
	if !governing() {
		return
	}
	Finish()
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

// Deferred, deferred, lets a panic in the governor end the process. It lets others pass, which net/http recovers.
func Deferred() {
	if cause := recover(); cause != nil {
		Ends(cause)
		panic(cause)
	}
}

// Handler is a handler in which a panic in the governor ends the process.
func Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer Deferred()
		h.ServeHTTP(w, r)
	})
}
