// Package sharing shares what a governor limits with other processes: the rates of pools, their slots
// and budgets, and tenants' own limits. [New] takes a governor whose configuration says that these are
// shared. The result is for package federation/runner, which talks to the store.
//
// # Picture
//
//	governor ── Demand ──► sharing ── Report, Claims ──► runner ──► store
//	governor ◄─ Allow ──── sharing ◄─ Commands, Parts ── runner ◄──┘
//
// # Rules
//
// The governor knows how much it may use of each limit (a grant), and how much is demanded of it. It
// knows nothing of other processes' messages. This package turns demands into claims: it decides how
// much is asked for in advance, how much for calls that wait or may come back, and whose weights count
// (of slots: package claims). And it turns answers into grants.
//
// All limits and budgets are demanded in one form (limits.Demand), so they are claimed by one function, with a rule each for what is asked
// for in advance. A grant goes by the limit's name: an axis, or a budget and its present period, and of a pool's a member. Other
// processes may count the same limit in other units, or be in another period.
//
// Slots have a form of their own (slots.Demand). They are claimed by weight, and several limits are on the same slots.
//
// All of it belongs to the runner's goroutines: one for each pool, and one for all limits, slots and
// budgets. No lock is held here.
//
// # Stability
//
// Experimental: any release may change it.
package sharing
