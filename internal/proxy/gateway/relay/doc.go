// Package relay passes an answer on, from an upstream to a client, and bounds how long either may be silent.
//
//	upstream ─► Idle ─► … ─► Writer.Copy ─► client
//
// [Writer] is the client's side: a client that reads nothing cannot hold a call for longer than its patience. [Idle] is the
// upstream's: an answer whose upstream falls silent is broken off.
//
// What an answer says, and what of it may be passed on, is decided elsewhere (packages answers and streaming).
package relay
