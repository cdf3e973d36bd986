// Package maxmin divides a capacity by weighted max-min fairness.
//
// Nobody gets more than it demands, and nobody could get more except at the cost of a claim
// that has no more for its weight. Picture claims as vessels side by side, as wide as their
// weights and as tall as their demands allow. Water poured over all of them rises to one
// level; vessels that are full stay behind, and a floor is ground on which a vessel stands:
//
//	        ┌───┐
//	level ~~│~~~│~~~~~~~~~┌──────┐~    share = min(demand, max(floor, weight · level))
//	        │   │  ┌────┐ │~~~~~~│
//	        │   │  │full│ │ floor│
//	        └───┘  └────┘ └──────┘
//
// [Divide] is for measures: it counts in floats, and knows floors. [DivideWhole] is for
// ledgers: units are whole, every unit is given to somebody, and what it gives is the same on
// every processor and in every store that repeats it, so it cannot be Divide rounded.
//
// Two relatives stay in package federation. Its account looks for the level at which the sum of
// curves exhausts the first of several capacities; no node has a single demand there. And its forest
// pours the same claims at the level of each point of such a curve, so it sorts them once.
//
// All functions are pure, and only write to the claims that they are given.
package maxmin
