// Package top shows a running gateway in a terminal: pools, tenants, leases, and the gateways
// that share its limits.
//
//	Ask ──► fetch ──► Data ──► Model.Update ──► screens ──► Model.frame: lines of text
//	 (GET, once a second)           ▲                            │
//	                             keys, sizes                 bubbletea ──► terminal
//
// A screen is a list with some lines above it. A list knows its columns, orders and rows; it
// sorts and filters them when data, order or filter change, and draws only visible rows, so that
// a frame of ten thousand tenants costs as much as one of twenty. The columns depend on the
// width: each has a rank, and the least important are left out first.
//
// # Rules
//
// The model does no I/O and reads no clock: it shows the last data with their time. One poll at a
// time is under way, and the next follows a second after its end. The snapshot lists the hundred
// most important tenants and leases of a pool; whole lists are read only while they are visible. A
// row is selected by its name, and stays selected wherever it moves.
//
// Nothing is shown by colour alone, and texts from the gateway cannot contain escape codes.
package top
