//go:build unix && !linux

package socket

import "syscall"

var (
	read  = syscall.Read
	write = syscall.Write
)
