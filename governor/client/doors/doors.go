// Package doors is for those who write a way to a governor for [client.Client]: a fake one for tests, say, in a few lines. Programs that
// use a governor have no need of it: package embedded or remote opens a Client for them.
//
//	governed := doors.Open(&fake{}, doors.Options{})
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next. New methods are asked for by interfaces of their own, as [Pinger].
package doors

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/internal/implement"
)

// Door is a way to a governor. It is safe for concurrent use.
type Door = interface {
	// Reserve waits until the call may begin. It returns what the call holds, or a *client.Refusal, or, if
	// ctx has ended, its error. The context is that of the whole call: its end does not end the lease.
	Reserve(ctx context.Context, req client.Request) (Held, error)
	// Shutdown is Client.Shutdown. Calls that hold a lease may still end it, before and after.
	Shutdown(ctx context.Context) error
}

// Held is what a Door keeps for one Lease. Its methods do not block for long: a Door to another process
// speaks with it behind them.
type Held = interface {
	// Grant is whose it is. It does not change.
	Grant() client.Grant
	// Progress says how far the call has come, and keeps it from expiring. End may overlap with it; the End of a call
	// that has shown progress has a Produced.
	Progress(p client.Produced)
	// End ends the call. It is called once.
	End(e client.End)
	// EndBy sets the function that the governor ends the call with, should it have to, with a *client.Refusal
	// as the cause. If it has already, end is called at once.
	EndBy(end context.CancelCauseFunc)
	// Show sets the headers that show an HTTP caller where it stands.
	Show(h http.Header)
}

// Closed ends the calls that hold a lease when a Door is shut down.
var Closed = &client.Refusal{Status: http.StatusServiceUnavailable, Code: client.CodeClosed, Message: "The client was closed.", Final: true}

// Keyring is a Door that knows at once which keys there are. Servers ask it before they read a body, because strangers could send
// any number of large ones.
type Keyring interface {
	// Knows reports whether a key is a tenant's, and has not expired.
	Knows(key string) bool
}

// Pinger is a Door to a governor that may be out of reach.
type Pinger interface {
	// Ping is Client.Ping.
	Ping(ctx context.Context) error
}

// Options are optional.
type Options struct {
	// Log has leases that were forgotten, or held for longer than MaxHold, and usage that cannot be. nil is slog.Default().
	Log *slog.Logger
	// MaxHold is the longest time from a lease to its end. One that is older has expired: it is charged by estimate, and its context ends.
	// 0 is no bound.
	MaxHold time.Duration
}

// Open returns a Client that asks through a door.
func Open(d Door, opt Options) *client.Client {
	return implement.Client.(func(Door, *slog.Logger, time.Duration) *client.Client)(d, opt.Log, opt.MaxHold)
}

// NewLease is the lease of a call with the context ctx, for servers that ask a Door themselves. Nobody watches over it.
func NewLease(ctx context.Context, held Held) *client.Lease {
	return implement.Lease.(func(context.Context, Held) *client.Lease)(ctx, held)
}
