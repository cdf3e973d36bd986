// Package inprocess is the door to a governor in the same process: client.Door over the life of a call
// (package admission). Programs open it with governor/embedded; servers of other protocols use it to admit the
// calls that others describe to them.
//
//	Reserve ─► held{admission.Call, client.Lease} ─► Enter, which waits ─► the lease, or a refusal
//	             Progress, EndBy, Show ─► the call
//	             End                   ─► Answered, Fail or End; Close
//
// One allocation holds the call and its lease.
package inprocess
