//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used so far, user + system. Linux keeps it in
// nanoseconds and reports microseconds.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("bench: BUG: getrusage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
