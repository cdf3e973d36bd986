//go:build unix

package http1

import (
	"errors"
	"syscall"
)

const canProbe = true

var errSpoke = errors.New("http1: the server has sent something unasked, or has closed the connection")

// probe reads from a socket that does not block. It returns nil if there is nothing to read.
func probe(fd uintptr) error {
	var one [1]byte
	_, err := syscall.Read(int(fd), one[:])
	if err == syscall.EAGAIN {
		return nil
	}
	return errSpoke
}
