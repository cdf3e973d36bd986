package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Systems take the ports of outgoing connections, and those of listeners on port 0, from 32768 on
// (Linux) or 49152 on (macOS).
const (
	firstPort = 20_000
	ports     = 10_000
)

// Port returns a free TCP port of 127.0.0.1 for a server that is a program of its own. No other
// test gets it before t ends, even while the server is stopped.
func Port(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		if reserve(t, port) {
			return port
		}
	}
	t.Fatalf("no free port from %d to %d", firstPort, firstPort+ports-1)
	return 0
}

// local is the address of a port of this machine.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// reserve reports whether the port was free, and keeps other tests off it until t ends: a UDP
// socket on the same port stands for the reservation, because it disturbs no TCP server and ends
// with the process.
func reserve(t testing.TB, port int) bool {
	addr := local(port)
	reservation, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	probe, err := net.Listen("tcp", addr)
	if err != nil {
		_ = reservation.Close()
		return false
	}
	_ = probe.Close()
	t.Cleanup(func() { _ = reservation.Close() })
	return true
}
