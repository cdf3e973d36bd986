// Package wallclock steps the wall clock that one running process sees, for a test: that of
// the machine, and the process's monotonic clock, stay as they are.
//
// A process reads its clocks in the vDSO, a page of code that the kernel maps into it, also
// one that is linked statically, as in Go. Into that page goes code that asks the kernel
// instead, and adds an offset to what a wall clock shows. A process that is forked
// afterwards inherits both; one that executes another program does not.
package wallclock

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Step lets the wall clocks of a process that is up, and of those that it has forked, jump
// by whole seconds.
func Step(t testing.TB, pid int, by time.Duration) {
	t.Helper()
	// A process that is forked meanwhile has the new clock already, or is on the list.
	if err := step(pid, int64(by/time.Second)); err != nil {
		t.Errorf("process %d: the wall clock cannot be stepped: %v", pid, err)
	}
	for _, child := range children(pid) {
		Step(t, child, by)
	}
}

func children(pid int) (out []int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, word := range strings.Fields(string(list)) {
		if child, err := strconv.Atoi(word); err == nil {
			out = append(out, child)
		}
	}
	return out
}
