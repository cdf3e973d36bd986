//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package keyfile

import (
	"errors"
	"runtime"
)

// lockFile cannot keep writers apart here, so nothing is written.
func lockFile(string) (unlock func(), err error) {
	return nil, errors.New("keys cannot be changed at run time on " + runtime.GOOS + "; change the policy files")
}
