package redis

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestFirstRelease: accounts that the first release wrote go on, and what its gateways have used counts.
func TestFirstRelease(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/first.json")
	if err != nil {
		t.Fatal(err)
	}
	var written struct {
		Pool   map[string][]byte
		Limits []byte
	}
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
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
