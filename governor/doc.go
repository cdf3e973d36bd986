// Package governor admits calls to shared LLM capacity: by requests, tokens and
// concurrency, of the tenant and of the pool, all or nothing.
//
// # Problem
//
// A limit that is checked first and charged when the answer is there lets fifty
// calls at once walk through a budget of ten. Limits that are charged one after
// another leave the first one charged when the last one refuses. A slot that
// is freed by whoever happens to notice the end of a stream leaks when nobody
// does.
//
// # Picture
//
//	          ┌─ tenant ──────────────┐   ┌─ pool ─────────────────┐
//	Acquire ─►│ rpm tpm itpm otpm     │──►│ budgets, split         │──► journal ──► Lease
//	          │ concurrency           │   │ fair queue, pace,      │                 │
//	          │ over it: a line, first│   │ rolling minute, slots  │                 │
//	          │ come first served     │   │ (package escrow)       │                 │
//	          │ budgets               │   │                        │                 │
//	          └───────────────────────┘   └────────────────────────┘          Progress…
//	                      ▲                    ▲           ▲                          ▼
//	                      │                    └───────────┴── Settle, Break or Release
//	                      └─────────────────────────────────── exactly once
//
// # Rules
//
// Everything is held before and settled after; nothing is checked and charged
// later. The tenant's own limits are held first: a call over one of them waits
// in the tenant's own line and blocks nobody else. Then the pool's share is
// asked for, and a refusal there gives the tenant's hold back whole. While a
// call waits for the pool its own cost is held, not booked, so that the
// tenant's minute begins when the call does.
//
// Budgets hold what a call is expected to take. A budget that has no room is not
// waited for: if it is spent the next period is far, and if calls in flight hold it
// they end when they do.
//
// What must outlive the process is told to a Journal, record by record, before the
// call goes; what it remembers is the Past that a new governor begins with.
//
// A Lease ends exactly once. It names its state by slot and generation, so a
// late Settle finds nothing, and never a stranger's lease.
//
// The escrow and the own limits are plain state; this package is their shell:
// one lock for each pool and each tenant, never nested, never held while
// waiting; one timer for each pool; no goroutine of its own.
//
// # What it is not
//
// It knows no HTTP, no policy files and no store. What a call may cost, it is
// told (see governor/tokens for prompts). It imports package escrow, what lies below
// that, and the standard library, and can be embedded as it is.
package governor
