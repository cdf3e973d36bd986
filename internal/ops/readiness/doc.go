// Package readiness decides whether a load balancer should go on sending calls to a gateway that is cut off from
// the store of its limits.
//
// # Problem
//
// Such a gateway refuses every call at once. A balancer that prefers the gateway with the fewest open calls
// sends it nearly all of them, so it should leave the balancer. But if the store is lost for all gateways, and all
// leave, callers are refused a connection instead of being told when to come back, and health checks have to pass
// again before anybody is served once the store is back.
//
// # Picture
//
//	store lost ──► Watch ── GET /readyz ──► other gateways, by the addresses that they last told through the store
//	                 │ ◄─ X-Llmgov-Store ──┘
//	                 └──► /readyz: 503 if one of them has the store
//
// # Rules
//
// A gateway alone is cut off if any other one has the store. One that cannot be reached says nothing. A process that has never
// reached the store knows no others, and takes nobody's place: it is not ready, so that a roll-out with a wrong address stops. The others
// are asked only once the loss has lasted for a second: by then they have noticed, if they have lost it too.
//
// Who asks /readyz is not kept waiting: others are asked in the background.
package readiness
