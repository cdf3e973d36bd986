package main

import (
	"context"
)

// contestant is a gateway in one way to run it.
type contestant struct {
	name    string
	setting string // how it is run, for the page
	// store is set if it keeps its counters in Redis.
	store bool
	open  func(context.Context, *bench, *site) (*gateway, error)
	// charged is the number of tokens that count in a tenant's limits a minute. It is nil if the gateway counts none.
	charged account
	// spent is the number of tokens that count in its budget; nil if that is the same counter.
	spent account
	// lacks says which limits of a tenant it does not have.
	lacks map[limit]bool
}

// account reads what a tenant was charged, in tokens.
type account func(context.Context, *gateway, tenant) (int64, error)

// limit is a kind of limit that a gateway has or lacks. Of calls all can count, but for the bare reverse proxy.
type limit int

const (
	limitBudget limit = iota
	limitTPM
	limitParallel
)

// contestants are all of them, in the order of the columns.
var contestants = []*contestant{&bare, &envoyLocal, &envoyGlobal, &liteLLM, &alone, &shared}
