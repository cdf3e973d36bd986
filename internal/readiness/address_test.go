package readiness

import (
	"net"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// A listener on all interfaces is announced by the address that leads to the store, others by their own; one on
// loopback only to gateways on the same machine.
func TestAddress(t *testing.T) {
	for _, c := range []struct{ listener, server, want string }{
		{"0.0.0.0:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"[::]:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"127.0.0.1:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"10.1.2.3:9090", "127.0.0.1:6379", "10.1.2.3:9090"},
		{"0.0.0.0:9090", "no port", ""},
		{"0.0.0.0:9090", "", ""},
	} {
		at := testkit.Must(net.ResolveTCPAddr("tcp", c.listener))(t)
		if got := Address(at, c.server); got != c.want {
			t.Errorf("%s towards %q is announced as %q, want %q", c.listener, c.server, got, c.want)
		}
	}
	if got := Address(&net.UnixAddr{Name: "/run/llmgov.sock"}, "127.0.0.1:6379"); got != "" {
		t.Errorf("a socket is announced as %q", got)
	}
}
