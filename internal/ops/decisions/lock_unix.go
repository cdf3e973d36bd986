//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package decisions

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file as long as it is open, if its file system supports locks.
func lock(f *os.File) error {
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return errors.New(f.Name() + " is written by another process")
	}
	return nil
}
