//go:build !unix

package socket

// CanRead reports whether there is ReadNow.
const CanRead = false

// ReadNow has read nothing.
func ReadNow(uintptr, []byte) (int, error) { return 0, ErrNothingYet }

func writeNow(uintptr, []byte) (int, error) { return 0, ErrNothingYet }
