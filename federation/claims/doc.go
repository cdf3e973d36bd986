// Package claims says in terms of package parts what a process demands of a pool's slots, and what it is granted of them.
//
// A pool's slots are several limits to the account that divides them: all slots, those that background calls may take, those that
// calls of each band may begin in, and what a soft cap leaves. A [Slots] makes the claims on all of them from one demand, and
// one grant from the answers.
//
// # Stability
//
// Experimental: any release may change it.
package claims
