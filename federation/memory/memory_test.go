package memory

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		set := int64(0)
		began := time.Now()
		s := New(Config{Now: func() int64 {
			if set != 0 {
				return set
			}
			return time.Since(began).Milliseconds() + 1
		}})
		return storetest.Harness{
			Store: s, Rules: federation.DefaultRules(),
			SetClock: func(now int64) { set = now },
			Replace:  func(incarnation string) { s.incarnation = incarnation },
			Save: func() func() {
				kept := map[string][]byte{}
				for pool, a := range s.accounts {
					b := testkit.Must(a.Encode())(t)
					kept[pool] = b
				}
				return func() {
					for pool := range maps.Keys(s.accounts) {
						a := testkit.Must(federation.Decode(kept[pool], s.cfg.Rules))(t)
						s.accounts[pool] = a
					}
				}
			},
		}
	})
}

func TestParts(t *testing.T) {
	storetest.RunParts(t, func(t *testing.T) storetest.PartsHarness {
		now := int64(1)
		return storetest.PartsHarness{Store: New(Config{Now: func() int64 { return now }}), SetClock: func(x int64) { now = x }}
	})
}

// TestForgotten: the account of an owner that nobody tells of is dropped.
func TestForgotten(t *testing.T) {
	now := int64(1_000_000)
	s := New(Config{Now: func() int64 { return now }})
	tell := func(owner string) {
		t.Helper()
		b := &parts.Beat{Owner: owner, Instance: "i", Seq: now, Claims: []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 5, Want: 5}}}
		testkit.Must(s.Share(context.Background(), []*parts.Beat{b}))(t)
	}
	tell("a")
	for range 4 {
		now += 60_000
		tell("b")
	}
	if len(s.owners) != 1 {
		t.Errorf("kept: %v", s.owners)
	}
}
