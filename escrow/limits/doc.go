// Package limits keeps one tenant's or team's own limits: requests and tokens in a rolling minute, in other windows and
// shapes (package shape), and concurrent calls. A [Set] is plain state. It has no lock and no clock: the governor has one
// Set for each tenant, and one for each pool in which a tenant has limits of its own.
//
// # Picture
//
//	Offer ─ fits ──────────────────────────► Hold ─► Suspend ⇄ Resume ─► Settle
//	  │                                        ▲
//	  └─ does not ─► Join ─► line ─► Take ─────┘
//	                          └────► Quit
//
// # Rules
//
// A call is held on all axes or on none. A call that does not fit waits in line; whoever fits later
// waits behind it. The line is first come first served, and by weight (start-time fair queueing)
// between the teams of a tenant. No team can fill it.
//
// A refused call's place is kept ([Set.Keep]): it holds nothing, but who is refused later is told a later time, and who
// comes back when told may wait in line although it is not ready to.
//
// A call that exceeds a limit by itself is cut to it, and goes when nothing else uses the limit.
// Usage beyond that is debt: it counts until it has been paid off at the limit's rate. Several limits may count the same: all of them must have room.
//
// # Grants
//
// Limits may be shared with other processes. Then a Set is granted an amount of each limit, and uses
// it as if it were the whole limit: whoever speaks with the other processes reads demands
// ([Set.Demand]) and puts grants in force ([Set.Allow]) for a time ([Set.Renew]). A grant that is not
// renewed expires. Refusals and forecasts tell the whole limits, and all that is known to be used of them.
// If nobody answers, the Set may go on by itself ([Set.Alone]). A call that another process lets
// in, by its books, enlarges the grants by its cost ([Set.Admit]).
//
// # Time
//
// [Set.Advance] brings a Set to now. All other methods see it as of then.
//
// Floats are used in forecasts and in the order of the line, and in no ledger.
//
// # Stability
//
// Experimental: any release may change it.
package limits
