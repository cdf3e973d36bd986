package testkit

import (
	"net"
	"strconv"
	"testing"
)

// A port is reserved until its test ends, although nothing listens on it.
func TestPort_StaysReserved(t *testing.T) {
	var port int
	t.Run("reserved", func(t *testing.T) {
		port = Port(t)
		if port < firstPort || port >= firstPort+ports {
			t.Errorf("port %d lies in the range from which systems take ports for others", port)
		}
		if reserve(t, port) {
			t.Errorf("port %d was given out twice", port)
		}
		server, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("no server can listen on the reserved port: %v", err)
		}
		server.Close()
	})
	if !reserve(t, port) {
		t.Errorf("port %d is reserved after its test", port)
	}
}

// A port on which something listens is not given out.
func TestPort_IsFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; reserve(t, port) {
		t.Errorf("port %d is in use, and was given out", port)
	}
}
