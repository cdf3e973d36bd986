package instance

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
)

// heardWithin is the time in which a gateway that runs tells a store of its pools, even if the store was away just before.
const heardWithin = 3500 * time.Millisecond

// DeclareNew declares to a store that no gateway has used the pools in the last minute. It waits for a moment before, because a gateway
// that runs may be about to tell a store that has just lost its data. A *federation.InUseError says why it was refused. done are the pools
// that have been declared new even so.
func DeclareNew(ctx context.Context, at store.Store, pools []string) (done []string, err error) {
	if err := checkUnused(ctx, at, pools); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(heardWithin):
	}
	if err := checkUnused(ctx, at, pools); err != nil {
		return nil, err
	}
	for _, p := range pools {
		for _, account := range governor.Accounts(p) {
			if err := at.Declare(ctx, account); err != nil {
				return done, err
			}
		}
		done = append(done, p)
	}
	for _, p := range pools { // after all pools, because pools are refused more often
		declared, err := at.DeclareOwner(ctx, govsharing.PoolOwner(p))
		if err != nil {
			return done, err
		}
		if !declared {
			return done, &federation.InUseError{Pool: p}
		}
	}
	return done, nil
}

// checkUnused sees whether gateways are heard of that run, so that nobody has to wait to be told so.
func checkUnused(ctx context.Context, at store.Store, pools []string) error {
	for _, p := range pools {
		v, err := at.Look(ctx, p)
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
