// Package top shows a running gateway in a terminal: pools, tenants, leases, and the gateways
// that share its limits.
//
//	Ask ──► fetch ──► Data ──► Model.Update ──► screens ──► Model.frame: lines of text
//	 (GET, once a second)           ▲                            │
//	                             keys, sizes                 bubbletea ──► terminal
//
// A screen is a list with some lines above it. A list knows its columns, orders and rows; it
// sorts and filters them when data, order or filter change, and draws those rows only that are
// seen, so that ten thousand tenants cost a frame what twenty do. Which columns there are
// depends on the width: each has a rank, and those that matter least go first.
//
// # Rules
//
// The model does no I/O and reads no clock: what it shows is as old as what it was told last,
// and says so. One question at a time is under way, and the next is asked a second after its
// end. The snapshot lists the hundred tenants and leases of a pool that matter most; whole
// lists are asked for only while somebody looks at them. A selected row is known by its name,
// and stays selected wherever it goes.
//
// Nothing is said by colour alone, and what comes from the gateway cannot write escape codes.
package top
