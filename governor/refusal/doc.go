// Package refusal says why a call may not begin: for programs ([Reason], [Refusal]) and for people ([Refusal.Error]). It is values and words
// alone; package governor makes refusals, and fills in their figures.
//
// # Stability
//
// Experimental: any release may change it.
package refusal
