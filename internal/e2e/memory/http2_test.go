package memory

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The frames of HTTP/2 that an upstream reads or writes, by RFC 9113.
const (
	dataFrame     = 0
	headersFrame  = 1
	settingsFrame = 4

	endStream  = 1
	endHeaders = 4

	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameStart = 9
)

// newHTTP2Upstream is newUpstream for HTTP/2 over TLS. All its streams are on one connection.
func newHTTP2Upstream(t *testing.T, most int) *upstream {
	t.Helper()
	skipUnderRace(t)
	u := &upstream{arrived: make(chan net.Conn, most)}
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": u.serveHTTP2}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u.url = server.URL
	u.trust = server.Client().Transport.(*http.Transport).TLSClientConfig
	return u
}

// serveHTTP2 reads requests, whose bodies together fit into the window that a connection begins with.
func (u *upstream) serveHTTP2(_ *http.Server, c *tls.Conn, _ http.Handler) {
	in := bufio.NewReader(c)
	_, _ = in.Discard(len(preface))
	_, _ = c.Write(frame(settingsFrame, 0, 0, ""))
	for {
		var start [frameStart]byte
		if _, err := io.ReadFull(in, start[:]); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(start[:4]) >> 8
		_, _ = in.Discard(int(length))
		kind := start[3]
		ends := start[4]&endStream != 0
		if ends && (kind == dataFrame || kind == headersFrame) {
			u.arrived <- &http2Stream{Conn: c, id: binary.BigEndian.Uint32(start[5:])}
		}
	}
}

// http2Stream answers one request. Its first bytes come behind the headers of a stream of events.
type http2Stream struct {
	net.Conn
	id    uint32
	begun bool
}

// eventStreamHPACK is status 200, and Content-Type as a literal, by the static table of RFC 7541.
const eventStreamHPACK = "\x88\x0f\x10\x11text/event-stream"

// Write implements net.Conn.
func (s *http2Stream) Write(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		_, _ = s.Conn.Write(frame(headersFrame, endHeaders, s.id, eventStreamHPACK))
	}
	if _, err := s.Conn.Write(frame(dataFrame, 0, s.id, string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func frame(kind, flags byte, stream uint32, payload string) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	f = append(f, flags)
	f = binary.BigEndian.AppendUint32(f, stream)
	return append(f, payload...)
}
