package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// unusedStore is a store in which some pools are in use, and which notes what is declared new.
type unusedStore struct {
	store.Store
	told        string // the pool of which a gateway tells, from a time on
	from        time.Time
	used, slots string // the pool that a gateway has just used, and the owner that has slots
	declared    []string
}

func (s *unusedStore) Look(_ context.Context, pool string) (federation.View, error) {
	if pool != s.told || time.Now().Before(s.from) {
		return federation.View{}, nil
	}
	return federation.View{Nodes: []federation.NodeView{{Name: "n", Live: true}}}, nil
}

func (s *unusedStore) Declare(_ context.Context, pool string) error {
	if pool == s.used {
		return &federation.InUseError{Pool: pool, Node: "n"}
	}
	if governor.PoolOf(pool) == pool { // its other accounts go with it
		s.declared = append(s.declared, pool)
	}
	return nil
}

func (s *unusedStore) DeclareOwner(_ context.Context, owner string) (bool, error) {
	if owner == s.slots {
		return false, nil
	}
	s.declared = append(s.declared, owner)
	return true, nil
}

// TestDeclareNew: if any pool is in use, as little as possible is declared new, and what was is said.
func TestDeclareNew(t *testing.T) {
	for name, x := range map[string]struct {
		store    unusedStore
		after    time.Duration // until a gateway tells
		refused  string
		done     []string
		declared []string
	}{
		"unused":                         {declared: []string{"a", "b", "pool a", "pool b"}, done: []string{"a", "b"}},
		"a gateway runs":                 {store: unusedStore{told: "b"}, refused: "b"},
		"a gateway is heard of at last":  {store: unusedStore{told: "b"}, after: 3400 * time.Millisecond, refused: "b"},
		"a gateway has just used a pool": {store: unusedStore{used: "b"}, refused: "b", done: []string{"a"}, declared: []string{"a"}},
		"calls run":                      {store: unusedStore{slots: "pool a"}, refused: "a", done: []string{"a", "b"}, declared: []string{"a", "b"}},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			x.store.from = time.Now().Add(x.after)
			done, err := DeclareNew(context.Background(), &x.store, []string{"a", "b"})
			used, _ := errors.AsType[*federation.InUseError](err)
			if (err != nil) != (x.refused != "") || used != nil && used.Pool != x.refused {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(done, x.done) || !slices.Equal(x.store.declared, x.declared) {
				t.Errorf("%v were said to be declared new, and %v were; want %v and %v", done, x.store.declared, x.done, x.declared)
			}
		})
	}
}
