package readiness

import (
	"net"
	"time"
)

// lookupFor bounds how long the name of the store's server is looked up.
const lookupFor = 500 * time.Millisecond

// Address returns host:port by which other gateways can reach a listener of this one, or "" if they cannot. For a listener
// on all interfaces it has the address from which this gateway reaches the server of their store.
func Address(listener net.Addr, server string) string {
	at, ok := listener.(*net.TCPAddr)
	if !ok {
		return ""
	}
	dialer := net.Dialer{Timeout: lookupFor}
	way, err := dialer.Dial("udp", server) // chooses an address, and sends nothing
	if err != nil {
		return ""
	}
	defer way.Close()
	from, ok := way.LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsLoopback() && !from.IP.IsLoopback() {
		return ""
	}
	reached := *at
	if at.IP.IsUnspecified() {
		reached.IP = from.IP
		reached.Zone = from.Zone
	}
	return reached.String()
}
