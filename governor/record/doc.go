// Package record has what of a governor outlives its process: the records of calls that a journal keeps ([Record]), what they add up to ([Uses]),
// what is saved beside them ([Saved]), and all of it as the next process finds it ([Past]). It is values and sums alone: package governor makes
// records and begins with a past, and whoever keeps them decides where, and in which form.
//
// # Stability
//
// Experimental: any release may change it.
package record
