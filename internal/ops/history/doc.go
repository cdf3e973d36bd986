// Package history keeps the last hour of each pool and tenant in memory, so that a chart has a past
// when a page opens. Most callers want [Recorder]; [Book] is the same without a clock, a lock or a
// goroutine.
//
//	source ──every 10 s──► Recorder.Run ──► Book.Record ──► rings of 360 points
//	                                             Book.Pool ◄── GET /api/v1/history
//
// # Rules
//
// Points lie on a grid of [Step]: at most one a step, and the last [Points] of them. A step without a
// record, because the process stood still, is missing, not zero. If the clock is put back, the book
// starts empty.
//
// # Memory
//
// A pair of tenant and pool costs 8 bytes a point, 2.9 kB in all, from the first step in which it
// does anything until it has done nothing for an hour. There are at most [MaxPairs] of them: 1,000
// tenants that all use 10 pools take 31 MB. Pairs beyond that are counted, not kept. A pool costs
// 17 kB.
//
// For more than an hour, or for several gateways together, there is Prometheus.
package history
