//go:build unix

package socket

import (
	"io"
	"syscall"
)

// CanRead reports whether there is ReadNow.
const CanRead = true

// ReadNow reads from a socket what has come. Its errors are those of the system, io.EOF and ErrNothingYet.
func ReadNow(fd uintptr, p []byte) (int, error) {
	n, err := now(read, fd, p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// writeNow writes to a socket what there is room for.
func writeNow(fd uintptr, p []byte) (int, error) { return now(write, fd, p) }

// now makes a system call, again if a signal has interrupted it.
func now(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		switch err {
		case nil:
			return n, nil
		case syscall.EAGAIN:
			return 0, ErrNothingYet
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
