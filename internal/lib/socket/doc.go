// Package socket reads from and writes to TCP sockets without telling Go's scheduler.
//
// Before each system call the scheduler prepares for one that blocks, and if the process had nothing to do it wakes the thread
// that watches for such calls (sysmon). Sockets do not block, so that thread finds nothing, but waking it takes 5 to 10 µs: twice before
// the first byte of a stream, to which a proxy adds some 300 µs, and once for each chunk. The network library of CloudWeGo (netpoll) does the same.
//
// The price is that nothing else can run on the processor, and no garbage collection can begin, while the kernel copies. So only short
// reads and writes are made in this way.
package socket
