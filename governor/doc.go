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
// # Who belongs to whom
//
// "acme/search" is a team of acme. Its share is carved out of acme's (a pool's tree
// is pool → group → tenant → team → …, and who has teams has its own calls as a leaf
// beside them), and every limit and budget of acme holds for it too. So a call holds
// a chain of quotas, the innermost first:
//
//	acme/search in the pool ─► acme/search ─► acme in the pool ─► acme ─► the pool
//
// Over one of them it waits in that quota's line, with what it has of the others held
// and not booked. Where several teams stand in a line, their weights decide who is
// next, and none may fill it, as in the pool.
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
// Who wants calls ended early asks for it (Interrupt), and each call ends itself, by the
// context that it was given for that. So there is one way for a lease to end.
//
// A Shadow goes whatever the limits say, is booked like everybody, and tells whether
// it would have been refused. Out of its turn it takes capacity, but no turns: neither
// its siblings nor it, when it is a shadow no more, pay for what it should not have had.
//
// # Many processes
//
// Where limits of pools are shared with other processes (Config.Shared), a pool hands out
// what allowances say. SharedPools are for who gets these: they report what was used and
// is asked for, under the pool's lock for as long as a copy takes, and take what
// follows. Nobody waits for that in a lock. A pool that nobody has told anything for as
// long as a grant lasts is cut off, and does what its configuration has for then.
//
// Calls at once are split over processes beside that (Config.SharedSlots): a pool has a part of
// its slots until that expires, and lets calls begin in it as if it were all. So are pools' budgets, and in
// them what each member may use by its share. SharedSlots are for who
// speaks for them, as SharedLimits are of tenants' own limits.
//
// Tenants' own limits are kept together with other processes in one of two ways (Pool.TenantLimits). A process
// has a part of each, and counts as if that were all; or calls ask (SharedCall), for all quotas of their chain and
// their budgets at once, are booked in all or in none, and hold nothing while they wait. What nobody
// answers in time is up to Pool.OnLoss.
//
// # Limits that move
//
// Of a pool whose concurrency is adaptive only as many slots are used as a limiter says
// (package adaptive), which is told, under the pool's lock, what calls see of the upstream: the time to the
// first token, or of whole answers to the end, and what the upstream refuses
// while no other upstream is ready (Lease.Overloaded); of a call that was sent on to another it is told nothing more
// (Lease.Retried). Refusals of ours it is not told.
//
// # Changes
//
// What a provider says of itself, and what is gone of it, is told by Throttle as cuts: of
// the rate, of the limits, or of everything for a while. They end by themselves, and who
// waits meanwhile waits in fair order.
//
// Apply puts another configuration in force. A table says who there is, and is
// immutable; pools and tenants live on from one to the next, by name, with all that
// counts in them, also for the minute in which they are in no table. A tenant's seat
// in a pool is its leaf there; who comes to a seat that was given up looks again.
// Nodes that no table has any more stay until nothing is lost by their removal.
//
// # Locks
//
// The escrow and the quotas are plain state; this package is their shell: one lock
// for each pool and each quota, never nested, but that Apply takes those of all pools
// at once, and never held while waiting; four timers for each pool; no goroutine of
// its own.
//
// What tenants had of a pool, and what was their due, is measured once a second, by
// package fairness, from the scheduler's own counters: they are copied under the pool's
// lock, and looked at under one that is taken before it, and never on the request path.
//
// # Events
//
// An Observer is told of each decision and each end, of configurations and of cuts, as
// values. Whoever shows, counts or writes what happens does it from there; this package
// does not. A governor that is Recorded lives on a timeline (timeline.go), so that what
// its Observer is told is enough to have the same decided again: there is one lock over
// all, each call walks as a coroutine, and no two things happen at once. With other processes
// that cannot be, for what they leave of a limit comes from outside, and calls wait for it within
// their walk. A governor that is Detailed tells as much, call by call in order, and is as it would be.
//
// # What it is not
//
// It knows no HTTP, no policy files and no store. What a call may cost, it is
// told (see governor/tokens for prompts). It imports package escrow, what lies below
// that, the messages of package federation, and the standard library, and can be embedded as it is.
package governor
