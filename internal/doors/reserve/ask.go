package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"hash/maphash"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
)

// Ask asks for a reservation.
type Ask struct {
	// Owner is who may end it.
	Owner string
	// Told says that the owner is the tenant, by its own key, and can tell what it likes.
	Told bool
	// ID names it among those of its owner. Left empty, one is made.
	ID string
	// TTL is how long it is kept without a sign of life. 0 is a minute. If it is Told, it is at most Options.Idle.
	TTL  time.Duration
	Call client.Request
}

// The bounds of Ask.TTL. An hour is longer than any answer takes between two signs of life. One that is Told is no older in all, because
// it may be in the way of others for nothing.
const (
	defaultTTL  = time.Minute
	shortestTTL = time.Second
	longestTTL  = time.Hour
	maxID       = 128
)

// Grant is a reservation that was made.
type Grant struct {
	ID    string
	TTL   time.Duration
	Lease *client.Lease // to show where its tenant stands, and not to be ended
}

// Reserve waits until the call may begin, in fair order. The wait ends with ctx. The error is a *client.Refusal
// or, if ctx has ended, its error.
func (b *Book) Reserve(ctx context.Context, ask *Ask) (*Grant, error) {
	r, err := b.reservation(ask)
	if err != nil {
		return nil, err
	}
	whole, end := context.WithCancelCause(b.base)
	r.end = end
	if same, err := b.add(r); err != nil || same != nil {
		end(nil)
		return granted(same, err)
	}
	stay := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	reserve := b.Door.Reserve
	if ask.Told {
		reserve = b.Door.ReserveTold
	}
	call := ask.Call
	if until, ok := ctx.Deadline(); ok {
		left := max(0, time.Until(until))
		if call.MaxWait == nil || left < *call.MaxWait {
			call.MaxWait = &left
		}
	}
	held, err := reserve(whole, call)
	stayed := stay()
	if err != nil {
		b.drop(r)
		end(nil)
		return nil, cmp.Or(ctx.Err(), err)
	}
	r.held = held
	lease := doors.NewLease(whole, held)
	lease.Context()                     // so that Interrupted knows
	if !stayed || !b.opened(r, lease) { // the answer would reach nobody
		_ = lease.End(client.End{Outcome: client.NotSent})
		b.drop(r)
		end(nil)
		return nil, cmp.Or(ctx.Err(), context.Canceled)
	}
	return granted(r, nil)
}

func granted(r *reservation, err error) (*Grant, error) {
	if err != nil {
		return nil, err
	}
	return &Grant{ID: r.name.id, TTL: r.ttl, Lease: r.lease}, nil
}

// reservation checks what is asked for, and fills in what is left out.
func (b *Book) reservation(ask *Ask) (*reservation, error) {
	switch {
	case !validID(ask.ID):
		return nil, invalid("reservation_id", "reservation_id may have up to %d visible ASCII characters, not %.200q", maxID, ask.ID)
	case ask.TTL == 0:
		ask.TTL = defaultTTL
	case ask.TTL < shortestTTL || ask.TTL > longestTTL:
		return nil, invalid("ttl", "ttl must be from %s to %s, not %s", shortestTTL, longestTTL, ask.TTL)
	}
	if ask.Told && b.Idle > 0 {
		ask.TTL = min(ask.TTL, b.Idle)
	}
	if ask.ID == "" {
		ask.ID = "rsv_" + rand.Text()
	}
	if ask.Call.ID == "" {
		ask.Call.ID = ask.ID
	}
	if err := ask.Call.Check(); err != nil {
		return nil, err
	}
	tenant := ask.Call.Tenant
	if ask.Call.Key != "" {
		tenant, _ = b.Tenant(ask.Call.Key) // an unknown key is refused at once
	}
	return &reservation{name: name{ask.Owner, ask.ID}, tenant: tenant, asks: digest(&ask.Call), told: ask.Told, ttl: ask.TTL}, nil
}

func validID(id string) bool { return len(id) <= maxID && printable(id) }

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// seed keeps callers from making calls that collide.
var seed = maphash.MakeSeed()

// digest tells calls apart.
func digest(r *client.Request) uint64 {
	wait := int64(-1)
	if r.MaxWait != nil {
		wait = int64(*r.MaxWait)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, text := range append([]string{r.Key, r.Tenant, r.Member, r.Model, r.Pool, r.Route, r.Tier, r.Retry.Key}, r.Instead...) {
		maphash.WriteComparable(&h, text)
	}
	for _, n := range []int64{r.InputTokens, r.MaxOutput, r.Copies, wait, int64(r.Retry.Attempt)} {
		maphash.WriteComparable(&h, n)
	}
	maphash.WriteComparable(&h, r.InputSize)
	maphash.WriteComparable(&h, [...]bool{r.NoOutput, r.OpenOutput, r.Free, r.Stream, r.Background, r.Retry.Once})
	maphash.WriteComparable(&h, r.Retry.Digest)
	return h.Sum64()
}
