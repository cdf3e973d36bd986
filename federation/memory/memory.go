// Package memory keeps the accounts of pools, and of owners of limits, for nodes of one process: of tests, and of
// programs that embed several governors. What it remembers ends with the process.
//
// # Stability
//
// Experimental: any release may change it.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// Config of a Store. The zero value is fit for use.
type Config struct {
	// Rules are federation.DefaultRules unless they are given.
	Rules federation.Rules
	// Now is the store's clock, in milliseconds; nil is the machine's.
	Now func() int64
	// Fresh says that nobody can have used anything before: a pool that is new is
	// granted from at once, and not after a minute.
	Fresh bool
}

// Store is a runner.Store, and keeps parts of owners' limits as well.
type Store struct {
	cfg Config

	mu          sync.Mutex
	accounts    map[string]*federation.Account
	incarnation string
	owners      map[string]*owned
	swept       int64 // when to look for who is forgotten next
}

// New returns a store that knows nothing.
func New(c Config) *Store {
	if c.Rules == (federation.Rules{}) {
		c.Rules = federation.DefaultRules()
	}
	if c.Now == nil {
		began := time.Now()
		c.Now = func() int64 { return began.UnixMilli() + time.Since(began).Milliseconds() }
	}
	return &Store{cfg: c, accounts: map[string]*federation.Account{}, owners: map[string]*owned{}}
}

// Beat implements runner.Store.
func (s *Store) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	if err := ctx.Err(); err != nil {
		return federation.Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	a := s.accounts[pool]
	if a == nil {
		a = federation.NewAccount(s.cfg.Rules, now, federation.Options{Incarnation: s.incarnation, Fresh: s.cfg.Fresh})
		s.accounts[pool] = a
	}
	return a.Beat(now, s.incarnation, b.Expect, b), nil
}

// Look implements runner.Store.
func (s *Store) Look(ctx context.Context, pool string) (federation.View, error) {
	if err := ctx.Err(); err != nil {
		return federation.View{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[pool]
	if a == nil {
		return federation.View{}, nil
	}
	return a.View(s.cfg.Now()), nil
}
