// Package embedded opens a governor inside a program, from the config file that the gateway has, or from a Policy
// in code. [Open] and [New] are what most callers want; the calls are then made with the Client in what they return.
//
//	governed, err := embedded.Open(ctx, "llmgov.yaml", embedded.Options{})
//	if err != nil { … }
//	defer governed.Close()
//
// Everything that a config says about limits holds: pools, tenants, budgets, prices, shared limits (store), state_dir,
// decision_log. Changes of the files come into force by themselves. What a config says about listeners and upstreams
// is for gateways, and has no effect here. The program names the tenants of its calls, which need no keys for that.
//
// A program links the stores that it imports, as with database/sql; store: memory needs none:
//
//	import _ "github.com/llmgov/llmgov/federation/redis"
//	import _ "github.com/llmgov/llmgov/federation/postgres"
//
// Programs that share a store share their limits with each other and with gateways. A program that would rather
// ask a gateway than be one more node of the store opens package remote instead.
//
// # Tests
//
// A governor runs in a bubble of testing/synctest, in which a day takes milliseconds: see TestExample_ADayInVirtualTime. It is opened and
// closed inside the bubble.
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next. Policy.Further leads to package tenants, which is not.
package embedded
