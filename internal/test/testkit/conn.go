package testkit

import (
	"net"
	"sync/atomic"
)

// CountedConn counts the writes of one part, but not those of several (net.Buffers).
type CountedConn struct {
	*net.TCPConn
	Writes *atomic.Int64
}

// Write implements io.Writer.
func (c CountedConn) Write(p []byte) (int, error) {
	c.Writes.Add(1)
	return c.TCPConn.Write(p)
}
