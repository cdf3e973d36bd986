package testkit

import (
	"context"
	"time"
)

// Leaving returns a context that is cancelled after a time, which nobody can know before as that of a deadline.
func Leaving(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(after, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}
