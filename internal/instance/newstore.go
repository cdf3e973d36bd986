package instance

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/federation"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
)

// heardWithin is the time in which a gateway that runs tells a store of its pools, even if the store was away just before.
const heardWithin = 3 * time.Second

// DeclareNew declares to a store that no gateway has used the pools in the last minute. It waits for a moment before, because a gateway
// that runs may be about to tell a store that has just lost its data. A *federation.InUseError says why it was refused; some pools may have
// been declared new by then.
func DeclareNew(ctx context.Context, store Store, pools []string) error {
	if err := checkUnused(ctx, store, pools); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(heardWithin):
	}
	for _, p := range pools {
		declared, err := store.DeclareOwner(ctx, govsharing.PoolOwner(p))
		if err != nil {
			return err
		}
		if !declared {
			return &federation.InUseError{Pool: p}
		}
		if err := store.Declare(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// checkUnused sees whether gateways are heard of that run, so that nobody has to wait to be told so.
func checkUnused(ctx context.Context, store Store, pools []string) error {
	for _, p := range pools {
		v, err := store.Look(ctx, p)
		if err != nil {
			return err
		}
		for _, n := range v.Nodes {
			if n.Live {
				return &federation.InUseError{Pool: p, Node: n.Name, Ago: time.Duration(v.Now-n.Seen) * time.Millisecond}
			}
		}
	}
	return nil
}
