// Package inprocess is the door to a governor in the same process: doors.Door over the life of a call
// (package admission). Programs open it with governor/embedded; servers of other protocols use it to admit the
// calls that others describe to them.
//
//	Reserve ─► held{*admission.Call} ─► Enter, which waits ─► the lease, or a refusal
//	             Progress ─► the call
//	             End      ─► Answered, Fail or End; Close
//
// What is held is one small allocation, because its lease may be kept. The memory of calls is used again.
package inprocess
