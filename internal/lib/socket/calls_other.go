//go:build unix && (!linux || race)

package socket

import "syscall"

// The race detector knows what these order, and which memory they touch.
var (
	read  = syscall.Read
	write = syscall.Write
)
