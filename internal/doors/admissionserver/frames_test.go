package admissionserver

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = append(head, flags)
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

// Requests that come whole, or are given up, leave nothing behind, and what is kept of others is counted, however the bytes come.
func TestFrames(t *testing.T) {
	data := strings.Repeat("x", 16<<10)
	all := strings.Repeat("P", prefaceSize) + frame(4, 0, 0, "settings") + frame(frameHeaders, 4, 1, "head") + frame(frameData, 0, 1, data) +
		frame(frameHeaders, 4, 3, "head") + frame(frameData, endStream, 1, data) + frame(frameData, 0, 3, data) + frame(6, 0, 0, "ping") + frame(frameReset, 0, 3, "code") +
		frame(frameHeaders, 5, 5, "head") + frame(frameHeaders, 4, 7, "head") + frame(frameData, 0, 7, data)
	for _, piece := range []int{1, 7, 4096, len(all)} {
		f := newFrames()
		for at := 0; at < len(all); at += piece {
			testkit.OK(t, f.take([]byte(all[at:min(at+piece, len(all))])))
		}
		if want := len("head") + len(data) + 2*aRequest; f.kept != want || len(f.open) != 1 {
			t.Errorf("in pieces of %d: %d bytes of %d requests are kept, want %d of one", piece, f.kept, len(f.open), want)
		}
	}
}

// A tenant's key cannot have gRPC keep many messages that never end, nor many calls without any; the token can.
func TestServer_UnfinishedRequests(t *testing.T) {
	field := func(name, value string) string {
		return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
	}
	head := func(credential string) string {
		return field(":method", "POST") + field(":scheme", "http") + field(":path", "/grpc.health.v1.Health/Check") + field(":authority", "localhost") +
			field("content-type", "application/grpc") + field("te", "trailers") + field("authorization", "Bearer "+credential)
	}
	for name, c := range map[string]struct {
		credential string
		message    int // in frames of each of 40 calls
		ends       bool
	}{
		"a tenant's":              {"sk-acme", 20, true},
		"a tenant's small ones":   {"sk-acme", 1, false},
		"that of whoever has all": {token, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			addr, _ := serve(t, token, true)
			conn := testkit.Must(net.Dial("tcp", addr))(t)
			defer conn.Close()
			_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, 0, ""))
			for stream := range uint32(40) {
				_, _ = io.WriteString(conn, frame(frameHeaders, 4, 2*stream+1, head(c.credential)))
				message := "\x00\x00\x00\xff\x00" // of 65,280 bytes
				for range c.message {
					_, _ = io.WriteString(conn, frame(frameData, 0, 2*stream+1, message+strings.Repeat("x", 3000)))
					message = ""
				}
			}
			_, _ = io.WriteString(conn, frame(6, 0, 0, "are you?"))
			heard := ""
			piece := make([]byte, 4096)
			for !strings.Contains(heard, "are you?") {
				n, err := conn.Read(piece)
				heard += string(piece[:n])
				if err != nil {
					break
				}
			}
			if ended := !strings.Contains(heard, "are you?"); ended != c.ends {
				t.Errorf("the connection ended: %t, want %t", ended, c.ends)
			}
		})
	}
}
