// Package sockets runs client → gateway → upstream on real sockets, for tests with SDKs and for tests
// of bytes on the wire.
package sockets
