//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package decisions

import (
	"errors"
	"os"
	"syscall"
)

// lock claims a file for as long as it is open. Where its file system knows no locks nobody is kept
// away.
func lock(f *os.File) error {
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return errors.New(f.Name() + " is written by another process")
	}
	return nil
}
