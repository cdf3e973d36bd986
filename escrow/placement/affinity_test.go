package placement

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/affinity"
)

var t0 = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// booksOf are the books of some upstreams, in whose limits nothing is used.
func booksOf(list []Spec) *Books[Account] {
	open := func(string) Account { return Account{limits.New(false, nil)} }
	b := (*Books[Account])(nil).Next(t0, Config{Upstreams: list}, open)
	for _, u := range b.List {
		u.Limits.Configure(t0, limits.Limits{Minute: limits.Cost{limits.Tokens: u.TPM}, Concurrency: u.Concurrency}, 0)
	}
	return b
}

// specs are up to 8 upstreams of up to 3 orders, with limits on tokens and calls.
func specs(t *rapid.T) (list []Spec) {
	for i, order := range rapid.SliceOfN(rapid.Int64Range(0, 2), 1, 8).Draw(t, "orders") {
		list = append(list, Spec{
			Name: "up" + strconv.Itoa(i), Order: order, Weight: rapid.Int64Range(1, 5).Draw(t, "weight"),
			TPM: rapid.Int64Range(0, 10).Draw(t, "tpm") * 1000, Concurrency: rapid.Int64Range(0, 3).Draw(t, "concurrency"),
		})
	}
	return list
}

// A call of a conversation goes where there is room if there is room at all, and to no higher order than others go: first come those
// of the lowest order, whatever the conversation would rather have.
func TestAffinity_TakesNothingFromOrdersAndRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := booksOf(specs(t))
		all := b.Mask(0)
		cost := escrow.Cost{escrow.Tokens: rapid.Int64Range(1, 3000).Draw(t, "tokens"), escrow.Requests: 1}
		for slot := range uint32(rapid.IntRange(1, 30).Draw(t, "calls")) {
			of := affinity.ConversationOf("acme", rapid.Uint64Range(0, 3).Draw(t, "conversation"))
			other, room := b.Choose(t0, all, cost, 0)
			at, ok := b.Choose(t0, all, cost, uint64(of))
			if ok != room {
				t.Fatalf("with a conversation there is room: %v, without: %v", ok, room)
			}
			if !ok {
				return
			}
			if b.List[at].Order != b.List[other].Order {
				t.Fatalf("it goes to order %d, others to %d", b.List[at].Order, b.List[other].Order)
			}
			if _, lacks := b.List[at].lacks(t0, CostOf(cost)); lacks {
				t.Fatalf("it goes to upstream %d, which has no room", at)
			}
			b.Begin(t0, slot, at, cost)
		}
	})
}

// While its upstream has room, a conversation stays there, call after call, at all gateways; when that is full it goes on elsewhere, and
// comes back.
func TestAffinity_Stays(t *testing.T) {
	list := []Spec{{Name: "a", Weight: 1, Concurrency: 1}, {Name: "b", Weight: 1, Concurrency: 1}, {Name: "c", Weight: 1, Concurrency: 1}}
	one := booksOf(list)
	other := booksOf([]Spec{list[2], list[0], list[1]})
	cost := escrow.Cost{escrow.Tokens: 10, escrow.Requests: 1}
	homes := map[string]bool{}
	for id := range uint64(20) {
		of := uint64(affinity.ConversationOf("acme", id))
		goesTo := func(b *Books[Account], slot uint32) string {
			at, ok := b.Choose(t0, b.Mask(0), cost, of)
			if !ok {
				t.Fatal("there is room, and none is found")
			}
			b.Begin(t0, slot, at, cost)
			return b.List[at].Name
		}
		home := goesTo(one, 1)
		homes[home] = true
		if full := goesTo(one, 2); full == home {
			t.Errorf("conversation %d goes to %s, which is full", id, full)
		}
		one.End(t0, 1, cost)
		one.End(t0, 2, cost)
		for range 3 {
			a := goesTo(one, 1)
			one.End(t0, 1, cost)
			b := goesTo(other, 1)
			other.End(t0, 1, cost)
			if a != home || b != home {
				t.Errorf("conversation %d goes to %s, then to %s, at another gateway to %s", id, home, a, b)
			}
		}
	}
	if len(homes) != 3 {
		t.Errorf("20 conversations go to %d upstreams of 3", len(homes))
	}
}
