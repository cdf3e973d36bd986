// Package governor admits calls to shared LLM capacity: by requests, tokens and
// concurrency, of the tenant and of the pool. A call is admitted with all of them, or refused with none.
//
// Most callers need [New] and these methods. [Governor.Acquire] reserves room for a call,
// waits for its turn if necessary, or returns a [Refusal] that says when to come back.
// [Lease.Settle] ends the call with the tokens that it took; a stream reports its output by
// [Lease.Progress] meanwhile. [Lease.Break] ends a call that was cut off, [Lease.Release]
// one that was never sent: defer Release, because it does nothing once the lease has ended.
//
// # Problem
//
// A limit that is checked first and charged when the answer is there lets fifty calls at
// once through a budget of ten. Limits that are charged one after another leave the first
// one charged when the last one refuses. And a slot that is freed by whoever happens to
// notice the end of a stream leaks when nobody does.
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
// # Teams
//
// "acme/search" is a team of acme. Its share is carved out of acme's: a pool's tree is
// pool → group → tenant → team → …, and the own calls of a tenant with teams are a leaf
// beside them. Every limit and budget of acme holds for the team too. So a call holds a
// chain of limits, the innermost first:
//
//	acme/search in the pool ─► acme/search ─► acme in the pool ─► acme ─► the pool
//
// If one of them has no room, the call waits in line there (package limits). What it has of the limits before that is
// held meanwhile, but not booked; of those after it, it has nothing yet. Where several teams wait in one line, their weights decide
// who is next, and none may fill it, as in the pool.
//
// # Members
//
// A tenant with Members divides the calls in its own name among those who make them: "acme/~ann" is Ann at acme. Nobody lists
// members. Each is made when it first calls, as a team of its tenant, and forgotten when nothing of it counts any more; 100,000 of a
// tenant are told apart, and further ones are as those without a name, who are one. To a pool's tree, other processes and the meter a tenant
// and its members are one leaf, below which the scheduler has a leaf for each (members.go). Its limits and budgets are kept and shared as any tenant's are.
//
// # Rules
//
// Everything is held before the call and settled after it; nothing is checked first and
// charged later. The tenant's own limits are held first: a call that exceeds one of its chain
// waits in the line of that one and blocks nobody else. Then the pool's share is asked for,
// and if that is refused, everything held is given back. While a call waits for the pool its
// own cost is held, not booked, so that the tenant's minute begins when the call does.
//
// Budgets hold the expected cost of a call. Nobody waits for a budget that has no room:
// if it is spent the next period is far away, and if calls in flight hold it, who knows when
// they end. Only a grant of one that several nodes share is waited for: of a tenant's budget in the line of its
// limits, of a pool's in a stage of its own, holding nothing.
//
// A Journal keeps, record by record, all that must outlive the process (package record). A call goes when its record is
// written. The memory of a journal is the Past with which a new governor begins.
//
// A Lease ends exactly once. It names its state by slot and generation, so a late Settle
// finds nothing, and never another call's lease.
//
// Interrupt asks calls to end early, by the Interrupter that each of them brought along; then
// each ends its own lease. So there is one way for a lease to end.
//
// A Shadow's calls go whatever the limits say. They are booked like all others, and each
// lease tells whether it would have been refused. Out of its turn a shadow takes capacity,
// but no turns: when the shadow ends, neither its siblings nor the tenant itself pay for it.
//
// # Many processes
//
// Limits may be shared with other processes. This package knows how much of each it may use, its
// grant, and states its demand. Package sharing speaks with the others: it reads demands, which
// takes a lock for no longer than a copy, and puts grants in force. No lock is held while waiting for
// an answer. A grant expires if it is not renewed.
//
// The rates of pools (Config.Shared, SharedPool) are granted as allowances of package escrow. A pool to
// which nothing is granted for as long as a grant lasts is cut off, and does as its configuration says
// for that case. If that leaves it nothing to hand out, no call waits for it (outage).
//
// Slots, that is concurrent calls, and pools' budgets (Config.SharedSlots, SharedSlots) are granted in
// numbers. A process uses a grant as if it were all; within a budget, also that of each member's share. The demand on slots, and what a
// grant of them leaves, are of package slots.
//
// Tenants' own limits (Config.SharedLimits, SharedLimits) are shared in one of two ways
// (Pool.TenantLimits). Either a process uses its grant of each limit as if it were all of it. Or
// each call asks first (SharedCall), for all limits of its chain and their budgets at once; it is
// booked in all of them or in none, and holds nothing while it waits. Pool.OnLoss decides about a
// call that nobody answers in time.
//
// # Adaptive limits
//
// Of a pool whose concurrency is adaptive, only as many slots are used as a limiter says
// (package adaptive). It is told what calls learn about the upstream:
// how long the first token took, or the whole answer where it comes as one, and what the
// upstream refused while no other upstream was left (Lease.Overloaded). ServersLoaded tells it what servers of one's own say of
// their load, by metrics that somebody else reads. Of a call that is
// sent on to another upstream it is told nothing more (Lease.Retried), and nothing of calls
// that this package refuses.
//
// # Changes
//
// Throttle says what is missing of a pool for a time, because its provider said so or an
// upstream is gone, as cuts: of the rate, of the limits, or of everything. They end by
// themselves, and calls that wait meanwhile wait in fair order.
//
// Apply puts another configuration in force. A table holds a configuration and is immutable.
// Pools and tenants live on from one table to the next by name, with everything that counts
// in them. If no table has them any more, they do so for two minutes and until nothing in them counts; the next Apply after that drops
// them. A tenant's seat in a pool is its leaf
// there; a call that comes to a seat that was given up looks again. Nodes that no table has
// any more stay until nothing is lost by their removal.
//
// # Locks
//
// The escrow and the limits are plain state, and this package is their shell. One lock guards all of it (lock.go): each method takes it
// once, does all that is to be done under it, and gives it back. To wait, to ask the store, to write the journal or to take long it
// is given back meanwhile, and what was found before may be different after. Of the others none is held while the first is taken but
// applying:
//
//	Governor.applying       a configuration that is put in force
//	Governor.mu             all that is decided by
//	measure.mu              the meter of a pool's shares
//	eventQueue.mu           events that are to be delivered
//
// None is held while waiting, or while an Observer, an Interrupt or a Journal is called; only where calls are recorded the Journal is
// asked within the instant, because its answer is part of the decision. What goes over all tenants gives the lock back after each few
// (breathe), where calls are recorded only those who look (blink). A panic under the lock keeps it. Only nine files, such as acquire.go, have
// to do with a context, a goroutine, the machine's clock or package sync; the others decide, and are told the time. They take the lock at most where they
// are called from outside. Tests of internal/test/arch hold the code against this.
//
// A call is a value with a stage (call.go). It goes on as far as it can when it asks, and again when it is woken: by whoever makes room for
// it, or at a time. A call that leaves a line, or gives back what it holds of a limit, wakes the first call in that line, also if a reload refuses
// it. Calls that one reload refuses are woken in the order in which they asked. These are its stages, in order:
//
//	                                   holds meanwhile          a reload without its tenant or pool
//	Pause: it can go nowhere yet       nothing                  refuses it
//	in the line of one of its chain    the limits before that   refuses it, which gives these back
//	listening to the store's answer    nothing                  is looked at once the answer is there
//	in a line, refused by the store    nothing                  refuses it
//	lacking a grant of pool's budget   nothing                  refuses it
//	in the pool's queue                chain unbooked, budgets  changes nothing
//	its journal record is written      all                      changes nothing
//
// A drain refuses all of these but the last, and so does an outage of the pool but for those who listen. All times are on one agenda (timeline.go), for the first of which there is a timer. There are no goroutines of this
// package's own. What happens to calls is written down, a line each, in testdata/calls: from one that is admitted at once to one that waits for two
// limits and a pool.
//
// What tenants had of a pool, and what they were entitled to, is measured once a second by
// package fairness, from the scheduler's own counters. These are copied under the
// lock, and evaluated under the meter's. None of that is on the way of a request.
//
// # Events
//
// An Observer is told of each decision and each end, of configurations and of cuts, as
// values. Whatever shows, counts or writes down what happens does it from there; this package
// does not. Of what happens under the lock an event is queued, and delivered when that is free
// (eventqueue.go). A governor that is Recorded has an exact timeline, so that what its
// Observer is told is enough to make the same decisions again: an instant lasts as long as the lock is held,
// and no two are at the same time. The grants of limits that other processes share are events as well (told.go), and Retell tells another governor of
// them. A governor that is Detailed reports its calls, one by one in order, and decides as it would without.
//
// # What it is not
//
// It knows no HTTP, no policy files and no store. It is told the possible cost of a call (see
// governor/tokens for prompts). It imports package escrow and the packages below that and
// the standard library, and can be embedded as it is. It speaks with no other process: package
// sharing does.
//
// # Stability
//
// Experimental: any release may change it.
package governor
