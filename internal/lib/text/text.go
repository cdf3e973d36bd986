// Package text makes text from outside, and numbers of bytes, fit for messages and logs.
package text

import (
	"fmt"
	"strings"
)

// Brief cuts text to a length fit for messages and logs.
func Brief(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Bytes is a number of bytes in the largest unit of which it is a whole number.
func Bytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
