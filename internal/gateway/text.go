package gateway

import (
	"fmt"
	"strconv"

	"github.com/llmgov/llmgov/internal/text"
)

func quoted(s string) string { return strconv.Quote(s) }

// brief cuts text from outside to a length fit for messages and logs.
func brief(s string) string { return text.Brief(s) }

func bytesText(n int64) string {
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
