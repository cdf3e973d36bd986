package storetest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/llmgov/llmgov/federation"
)

// concurrent sends beats of several nodes concurrently, some of them twice, and searches an order in
// which an Account would have answered the same.
func concurrent(t *testing.T, h Harness) {
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	send := func(client int, b *federation.Beat) federation.Reply {
		call := time.Since(began).Nanoseconds()
		r, err := h.Store.Beat(context.Background(), "p", b)
		back := time.Since(began).Nanoseconds()
		if err != nil {
			t.Error(err)
			return r
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: b, Call: call, Output: Text(r), Return: back})
		return r
	}
	var group sync.WaitGroup
	for i, name := range []string{"a", "b", "c", "d"} {
		group.Go(func() {
			n := newNode(name, h, uint64(i))
			n.expect = 2
			for range 25 {
				b := n.next()
				var twice sync.WaitGroup
				if n.rng.IntN(4) == 0 {
					twice.Go(func() { send(10+i, b) })
				}
				r := send(i, b)
				twice.Wait()
				n.took(r)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	if res, info := porcupine.CheckOperationsVerbose(model(t, h.Rules), history, 20*time.Second); res != porcupine.Ok {
		file := t.TempDir() + "/history.html"
		_ = porcupine.VisualizePath(model(t, h.Rules), info, file)
		t.Fatalf("of %d beats that came at once there is no order: %v", len(history), res)
	}
}

// model is an account as a model of porcupine. Its state is the account as text, which is unique
// for each account, and the time of a step is that of the reply.
func model(t *testing.T, r federation.Rules) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			b := input.(*federation.Beat)
			var said federation.Reply
			parse(t, output, &said)
			a := federation.NewAccount(r, said.Now, federation.Options{})
			if state != "" {
				a = &federation.Account{}
				parse(t, state, a)
			}
			reply := a.Beat(said.Now, a.Incarnation, b.Expect, b)
			if Text(reply) != output.(string) {
				return false, state
			}
			return true, Text(a)
		},
	}
}

func parse(t *testing.T, from, into any) {
	if err := json.Unmarshal([]byte(from.(string)), into); err != nil {
		t.Fatal(err)
	}
}
