// Package shape has the accounts of limits over time: when use begins to count against a limit, and when it stops. [New]
// makes the account of a [Rule].
//
//	            use of 6 of 10 per minute, as it counts later
//	Rolling     ██████████████████████████▏             all of it for a minute
//	Fixed       █████████████▏                          to the end of the minute by the clock
//	TokenBucket ████████████▆▆▆▆▅▅▅▅▄▄▄▃▃▂▂▁            less and less, at the rate of 10 a minute
//	GCRA        as TokenBucket, but the bucket holds less
//
// # What each of them promises
//
//   - Rolling: no interval of length Per has more than Amount.
//   - Fixed: no window by the clock has more than Amount. Two windows that touch may have twice that.
//   - TokenBucket, GCRA: no interval has more than Capacity and, for its length, Amount per Per. So a window of
//     length Per may have both. That is the price of a rate which is never idle after a burst.
//
// What a call takes beyond its booking may exceed a limit. That is debt: it counts until it has been paid off at the limit's rate. In a
// bucket it is as all else that is in it. In a window it drains by what the limit has beside what is booked, a fixed one at the end of each: while
// there is debt, both count no less than is in a bucket of that rate, but a rolling window may have the overrun beside its Amount.
//
// The two buckets are one algorithm. They differ in how much unused rate they save up if the rule does not say: a
// [TokenBucket] the whole Amount, [GCRA] a tenth of it, for a smooth pace.
//
// No account remembers each call, so it may count use longer than it has to, but never shorter: a rolling window by up to
// 1/[Slots] of its length, a bucket by up to 1/32 of its size. It takes the same memory, some 1 to 3 KB, for a second
// and for a month.
//
// # Over several processes
//
// Each process has an account of its own, of which it may use a part ([Account.SetLimit]). If the parts together are no more
// than the limit, what all count together is no less than one account for all of them would. That is plain for windows. A bucket
// drains at the part of the rate that its part is of the Capacity, so all of them drain no faster than one would; and if
// a process is gone, its part counts whole for a Window, in which one bucket would have drained whatever was in it.
//
// # Stability
//
// Experimental: any release may change it.
package shape
