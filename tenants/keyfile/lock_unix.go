//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyfile

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPatience is how long to wait for another writer, each of which takes milliseconds.
const lockPatience = 5 * time.Second

// lockFile takes the lock that a file stands for. The file stays: were it removed, two could hold a lock each. The
// lock ends with the process, however that ends.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(&os.PathError{Op: "flock", Path: path, Err: err}, f.Close())
		case time.Now().After(deadline):
			return nil, errors.Join(errors.New("another process holds the lock "+path+" for too long; end it, or try again"), f.Close())
		}
	}
}
