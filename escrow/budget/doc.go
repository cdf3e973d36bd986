// Package budget counts long windows: so many tokens a day, dollars a month,
// requests an hour, of a tenant's own or shared by a pool's members by weight.
//
// # Problem
//
// A minute's limit can be paced: a tenant that comes back waits a second for
// its share. A month's cannot. If whoever asks first is served first, one batch
// job has the month by the second day. If each member's share is kept for it,
// the parts of quiet members strand: with weights 4:2:1, of which the heaviest
// says one word, 43 % of the budget is used and the rest refused. And calendars
// are not multiples of anything: days have 23 hours, or no midnight.
//
// # Picture
//
// A Cap is a sum and a limit. A Split lays every share out over the window:
//
//	        0 (start)            now                       end
//	quiet   |....................|=========================|
//	steady  |####################|=========================|
//	ahead   |######################################|=======|
//	spent   |##############################################|
//
//	# used   = reserved for the member   . let pass: now anybody's
//
// A member's position is how far it is in its share: the time that its use is
// worth, at the rate at which the share would just last, and the time it let
// pass. The present pushes positions before it; what is after its position is
// reserved for the member. Nobody waits here: a call is admitted or refused.
//
// # Rules
//
// Of the limit L, let F be the unused part, W the weight of the members
// present, and τ the part of the window that has passed.
//
//	share     g_i = w_i · L/W
//	claim     e_i = g_i · (1 - position_i), position_i ≥ τ
//	admitted  cost ≤ F, and cost ≤ e_i or cost ≤ F - Σ_{j≠i} e_j
//
// Present is who asked in this period, or in the last one in which anybody did,
// or has been added since then. Without that memory the first caller of a month
// is alone, its share is everything, and it may take everything. Presence is
// all that is remembered: the usage of a member last month says little about when
// it will come back in this one, and decay corrects a wrong guess.
//
// A call counts in the period in which it was admitted, with all it holds. A
// refund after the end of that period is dropped, because the period is over;
// its cost beyond the hold counts when that is known. So everything is
// counted once, and a period in which nothing happens is at 0.
//
// A refusal has the time at which it would be an admission if nobody else did
// anything: exact to a microsecond, because claims only decay.
//
// RetryAt and a decision are O(log N): positions of members that have asked are
// in a search tree with sums over its prefixes, and those that have not are all
// at the present and need only the sum of their weights. Books are integers;
// reserved amounts are rounded up, once, and the amount that one may have is rounded down.
// Shares of others are seen as of their last word: after a change of weights or
// members, their part is exact when they ask again.
//
// # Theorems
//
// As long as calls take no more than they hold, and tests are named after them:
//
//	T1  The use is at most L, at every instant, in any order.
//	T2  While members and weights stay, member i can take
//	    g_i·(1-τ) - used_i, whatever the others did; and all of them can, at the
//	    same instant. Steady use loses nothing. Without decay, τ is 0.
//	T3  If members ask to the end, less than one call is left. Without decay,
//	    less than one call a member is, and all shares of quiet members.
//	T4  Without decay, members that ask all along differ at the end in use over
//	    weight by at most a largest call of each: c_max·(1/w_i + 1/w_j).
//
// A member that becomes present when others have used more than their new,
// smaller shares finds claims that exceed F. Then claims are first come, first
// served, until decay has made them fit.
//
// # For the record
//
// This is a windowed weighted escrow, which has been published with a different
// rule, and three of its properties do not hold as stated:
//
//   - A borrower was to get at most the cost of its call beyond its share,
//     counted from the share. So once beyond it, every further call wants more
//     than it costs: nobody ever borrowed twice.
//   - A reserve that depends only on use and time, min(g - used, g·(1-τ)), does
//     not protect that part. It stays as it is while a member that was
//     quiet collects it, so that the member collects it again, from the next
//     one's. The time that was let pass must be remembered.
//   - Who may have what was decided by who had asked since the window began, so
//     the first to ask in a window had the whole of it. And every refusal named
//     the end of the window, also where a minute of waiting would have done.
//
// # What it is not
//
// It is not fair in what decay gives back: that goes to who asks first, and not
// by weight. (A pool's queue, in package escrow, decides who gets to ask.) It is
// not a guarantee for who comes late: coming at τ, one finds 1-τ of one's share.
// It does not keep a list of holds: its owner settles each once. It does not
// know time zones: a program that must not depend on the machine's imports
// time/tzdata in its main package. And a clock that jumps ahead by a month ends
// this month: time only moves forward.
//
// The package is pure: no clock, goroutine, lock or I/O. Every verb takes the
// time.
//
// # Stability
//
// Experimental: any release may change it.
package budget
