package redis

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestFormat_EarlierRelease: a member that was written without its format, as earlier releases do, counts as one of format 1.
func TestFormat_EarlierRelease(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t).URL())
	ctx := context.Background()
	beat := func(node string, seq int64) int {
		t.Helper()
		r := testkit.Must(s.Beat(ctx, "p", &federation.Beat{Node: node, Instance: node, Join: true, Seq: seq, Format: 2}))(t)
		return r.Format
	}
	beat("a", 1)
	if got := beat("b", 1); got != 2 {
		t.Errorf("among nodes of format 2 it is %d", got)
	}
	member := testkit.Must(s.client.HGet(ctx, key("p"), "n:b").Result())(t)
	testkit.OK(t, s.client.HSet(ctx, key("p"), "n:b", member[:len(member)-12]).Err())
	if got := beat("a", 2); got != 1 {
		t.Errorf("beside a node that names none it is %d", got)
	}
	if got := beat("b", 2); got != 2 {
		t.Errorf("when that node names it again it is %d", got)
	}
}

// TestFirstRelease: accounts that the first release wrote go on, and what its gateways have used counts.
func TestFirstRelease(t *testing.T) {
	t.Parallel()
	text := testkit.Must(os.ReadFile("testdata/first.json"))(t)
	var written struct {
		Pool   map[string][]byte
		Limits []byte
	}
	testkit.OK(t, json.Unmarshal(text, &written))
	s := open(t, redistest.New(t).URL())
	s.use(saidServer, saidClock)
	do(t, s, "HSET", "said", "now", 1_700_000_000_500, "incarnation", "first")
	for field, value := range written.Pool {
		do(t, s, "HSET", key("p"), field, value)
	}
	do(t, s, "SET", partsKey("acme"), written.Limits)
	ctx := context.Background()
	r, err := s.Beat(ctx, "p", &federation.Beat{
		Node: "a", Instance: "a", Seq: 3, Acked: 2, Epoch: 1_700_000_000_000, Sent: 1_700_000_000_400, Joined: 1_700_000_000_000, Expect: 2,
		Limits: federation.Amounts{600_000, 600}, Held: federation.Amounts{300, 1}, Format: federation.Format,
	})
	if err != nil || r.Status != federation.Granted || r.Used != (federation.Amounts{14_600, 16}) || r.Format != 1 {
		t.Errorf("%s, used %v, format %d, %v", r.Status, r.Used, r.Format, err)
	}
	replies, err := s.Share(ctx, []*parts.Beat{{Owner: "acme", Instance: "a", Seq: 2, Claims: []parts.Claim{
		{Name: "minute", Kind: parts.Rolling, Limit: 100, Used: 10, Part: 20, Want: 20},
		{Name: "month", Kind: parts.Period, Limit: 1000, Ends: 1_800_000_000_000, Used: 30, Part: 40, Want: 40},
		{Name: "slots", Kind: parts.Slots, Limit: 8, Used: 2, Part: 2, Want: 3, Tail: 4000},
	}}})
	if err != nil || len(replies[0].Parts) != 3 {
		t.Fatalf("%+v, %v", replies, err)
	}
	for i, want := range []int64{10, 30, 2} {
		if got := replies[0].Parts[i].Others; got != want {
			t.Errorf("others have used %d of limit %d, want %d", got, i, want)
		}
	}
}
