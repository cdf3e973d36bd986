package escrow_test

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Two tenants share a pool of 60,000 tokens a minute, which is one call a second here. Acme has twice the weight of
// zeta, so it gets twice as many calls through while both have calls waiting.
func ExamplePool() {
	start := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	pool := escrow.New(start, escrow.Config{TPM: 60_000, MaxQueue: 100})
	acme := pool.Add(escrow.Root, escrow.Node{Weight: 2})
	zeta := pool.Add(escrow.Root, escrow.Node{Weight: 1})

	cost := escrow.Cost{escrow.Tokens: 1_000, escrow.Requests: 1}
	served := make(map[escrow.NodeID]int)
	waiting := make(map[escrow.Handle]escrow.NodeID)
	for range 20 {
		for _, leaf := range []escrow.NodeID{acme, zeta} {
			call, answer := pool.Offer(start, escrow.Call{Leaf: leaf, Most: cost, MaxWait: time.Minute})
			switch answer.Verdict {
			case escrow.Admitted:
				served[leaf]++
				pool.Settle(start, call, cost) // when its answer is there
			case escrow.Queued:
				waiting[call] = leaf
			default:
				fmt.Println("refused; come back in", answer.Wait)
			}
		}
	}

	// The pool has no clock: it says when it has something to do, and its owner calls it then.
	for now := start; now.Before(start.Add(24 * time.Second)); {
		for _, call := range pool.Pump(now, nil) {
			served[waiting[call]]++
			pool.Settle(now, call, cost)
		}
		next, more := pool.Next()
		if !more {
			break
		}
		now = next
	}
	fmt.Println("acme:", served[acme])
	fmt.Println("zeta:", served[zeta])
	// Output:
	// acme: 16
	// zeta: 8
}

// A machine that runs one job at a time is shared by how long jobs have it: a pool of slots alone needs no costs. Acme has twice the weight.
func ExamplePool_slots() {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	pool := escrow.New(now, escrow.Config{Slots: 1, MaxQueue: 100})
	acme := pool.Add(escrow.Root, escrow.Node{Weight: 2})
	zeta := pool.Add(escrow.Root, escrow.Node{Weight: 1})

	jobs := make(map[escrow.Handle]escrow.NodeID)
	var running []escrow.Handle
	for range 9 {
		for _, leaf := range []escrow.NodeID{acme, zeta} {
			job, answer := pool.Offer(now, escrow.Call{Leaf: leaf, MaxWait: time.Hour})
			jobs[job] = leaf
			if answer.Verdict == escrow.Admitted {
				running = append(running, job)
			}
		}
	}
	minutes := make(map[escrow.NodeID]int)
	for range 9 {
		now = now.Add(time.Minute) // which each job takes
		minutes[jobs[running[0]]]++
		pool.Settle(now, running[0], escrow.Cost{})
		running = pool.Pump(now, nil)
	}
	fmt.Println("acme:", minutes[acme])
	fmt.Println("zeta:", minutes[zeta])
	// Output:
	// acme: 6
	// zeta: 3
}
