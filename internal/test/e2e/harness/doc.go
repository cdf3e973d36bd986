// Package harness runs client → gateway → model server in one process, over connections in memory
// and in virtual time, for the tests in the folders beside it. Package sockets does the same on
// real sockets.
package harness
