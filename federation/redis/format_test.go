package redis

import (
	"context"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestFormat_EarlierRelease: a member that was written without its format, as earlier releases do, counts as one of format 1.
func TestFormat_EarlierRelease(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t).URL())
	ctx := context.Background()
	beat := func(node string, seq int64) int {
		t.Helper()
		r, err := s.Beat(ctx, "p", &federation.Beat{Node: node, Instance: node, Join: true, Seq: seq, Format: 2})
		if err != nil {
			t.Fatal(err)
		}
		return r.Format
	}
	beat("a", 1)
	if got := beat("b", 1); got != 2 {
		t.Errorf("among nodes of format 2 it is %d", got)
	}
	member, err := s.client.HGet(ctx, key("p"), "n:b").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.HSet(ctx, key("p"), "n:b", member[:len(member)-12]).Err(); err != nil {
		t.Fatal(err)
	}
	if got := beat("a", 2); got != 1 {
		t.Errorf("beside a node that names none it is %d", got)
	}
	if got := beat("b", 2); got != 2 {
		t.Errorf("when that node names it again it is %d", got)
	}
}
