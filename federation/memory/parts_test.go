package memory

import (
	"context"
	"testing"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

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
