// Package wallclock steps the wall clock of one running process, for a test. The clock of
// the machine, and the process's monotonic clock, do not change.
//
// A process reads its clocks in the vDSO, a page of code that the kernel maps into it, even
// if it is linked statically, as in Go. The package replaces that code by system calls that
// add an offset to the wall clock. A process forked afterwards inherits both; one that
// executes another program does not.
package wallclock

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Step steps the wall clocks of a running process, and of those that it has forked, by whole
// seconds.
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
