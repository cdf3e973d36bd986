//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// read is syscall.Read for a socket that does not block.
func read(fd int, p []byte) (int, error) { return raw(syscall.SYS_READ, fd, p) }

// write is syscall.Write for a socket that does not block.
func write(fd int, p []byte) (int, error) { return raw(syscall.SYS_WRITE, fd, p) }

func raw(trap uintptr, fd int, p []byte) (int, error) {
	n, _, failed := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if failed != 0 {
		return 0, failed
	}
	return int(n), nil
}
