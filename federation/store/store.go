// Package store opens the stores through which processes share limits, by their addresses. A program has those that it links,
// as with database/sql:
//
//	import _ "github.com/llmgov/llmgov/federation/redis"    // redis, rediss, redis+sentinel, rediss+sentinel
//	import _ "github.com/llmgov/llmgov/federation/postgres" // postgres, postgresql
//
// # Stability
//
// Experimental: any release may change it.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/federation/spend"
)

// Store keeps the accounts of shared limits.
type Store interface {
	runner.Store
	runner.LimitStore
	// Declare takes an operator's word that no gateway has used a pool in the last minute, and DeclareOwner that none has slots
	// of an owner; see Account.Declare of packages federation and parts.
	Declare(ctx context.Context, pool string) error
	DeclareOwner(ctx context.Context, owner string) (bool, error)
	// Document reads a text that all gateways share, by its name; "" is none. Replace puts another in the place of an old one, if
	// that is still there.
	Document(ctx context.Context, name string) (string, error)
	Replace(ctx context.Context, name, old, text string) (done bool, err error)
	Close()
}

// Spend is a Store that has the account of spend of all gateways, too.
type Spend interface {
	// PutSpend tells the rows of a gateway, as far as they have changed. It may be called again with the same.
	PutSpend(ctx context.Context, gateway string, rows []spend.Row) error
	// SpendRows calls each with the rows of some days, both included, added up over all gateways.
	SpendRows(ctx context.Context, from, to string, each func(spend.Row)) error
}

// Herald is a Store by which one gateway of all says something.
type Herald interface {
	// First reports whether no other gateway has asked before about something, until a time. One that was first until mine is so again; if it was not,
	// mine is zero. Times are exact to the microsecond.
	First(ctx context.Context, what string, mine, until time.Time) (bool, error)
}

// Driver is a kind of store.
type Driver struct {
	Name    string   // in logs
	Schemes []string // of its addresses
	// Check reports the mistakes in an address, without its password.
	Check func(address string) error
	// Server is a server at an address, as host:port; empty if there is none.
	Server func(address string) string
	// Open opens a store without connecting. It calls warn when the server is found to be set up such that data can be lost.
	Open func(address string, r federation.Rules, warn func(harm string)) (Store, error)
}

// drivers are those that are linked, by scheme.
var drivers = map[string]*Driver{}

// Register adds a driver. It is called by init functions alone, and panics if a scheme has one already.
func Register(d Driver) {
	for _, scheme := range d.Schemes {
		if drivers[scheme] != nil {
			panic("store: two drivers for " + scheme + "://")
		}
		drivers[scheme] = &d
	}
}

// Check reports the mistakes in the address of a store, without its password.
func Check(address string) error {
	d, err := driverOf(address)
	if err != nil {
		return err
	}
	return d.Check(address)
}

// Server is a server of the store at an address, as host:port; empty if there is none.
func Server(address string) string {
	d, err := driverOf(address)
	if err != nil {
		return ""
	}
	return d.Server(address)
}

// Open opens the store at an address, without connecting.
func Open(address string, warn func(store, harm string)) (Store, error) {
	d, err := driverOf(address)
	if err != nil {
		return nil, err
	}
	s, err := d.Open(address, federation.DefaultRules(), func(harm string) { warn(d.Name, harm) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// driverOf finds the driver for an address. Of one that is no URL nothing is shown, since anything may be a password.
func driverOf(address string) (*Driver, error) {
	scheme, _, isURL := strings.Cut(address, "://")
	if d := drivers[scheme]; d != nil && isURL {
		return d, nil
	}
	for _, kind := range []string{"redis", "postgres"} {
		if isURL && strings.HasPrefix(scheme, kind) {
			return nil, fmt.Errorf("this program is built without stores at %s://; import _ %q", kind, "github.com/llmgov/llmgov/federation/"+kind)
		}
	}
	return nil, errors.New("the address (not shown) is not one of a store; write postgres://user:password@host/database or redis://user:password@host:6379")
}
