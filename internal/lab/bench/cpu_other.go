//go:build !unix

package main

import "time"

// cpuTime is not known here; the benchmark needs getrusage(2).
func cpuTime() time.Duration { panic("bench: this system is not supported") }
