//go:build !linux || !amd64

package wallclock

import "errors"

// Possible reports whether clocks can be stepped here at all.
const Possible = false

func step(int, int64) error { return errors.New("that is written for Linux on amd64 alone") }
