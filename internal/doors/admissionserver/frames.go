package admissionserver

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
)

// frames follows the frames of HTTP/2 on a connection of gRPC, whose library reads any message up to one bound for all services, and as many at
// once as there are streams. Who has a tenant's key alone sends small messages, and may not have gRPC keep more of requests that do not
// come to an end. It is read by one goroutine.
type frames struct {
	trusted atomic.Bool // a call had the token
	rest    int         // bytes of the preface, or of a frame, that are still to come
	head    [9]byte     // of a frame (RFC 9113, 4.1)
	have    int         // bytes of head
	kept    int         // bytes of requests that have not come whole
	open    map[uint32]int
}

const (
	prefaceSize = 24
	// mostKept bounds what is kept of a connection's requests, of which each counts aRequest more.
	mostKept = 1 << 20
	aRequest = 1 << 10

	frameData    = 0
	frameHeaders = 1
	frameReset   = 3
	endStream    = 1 // a flag of the first two
)

var errUnfinished = errors.New("admissionserver: too much of requests that do not come to an end")

func newFrames() *frames { return &frames{rest: prefaceSize, open: map[uint32]int{}} }

// take follows what has come.
func (f *frames) take(b []byte) error {
	for len(b) > 0 && !f.trusted.Load() {
		if f.rest > 0 {
			n := min(f.rest, len(b))
			f.rest -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < len(f.head) {
			return nil
		}
		f.have = 0
		f.rest = int(binary.BigEndian.Uint32(f.head[:]) >> 8)
		if f.begin(f.head[3], f.head[4], binary.BigEndian.Uint32(f.head[5:])) > mostKept {
			return errUnfinished
		}
	}
	return nil
}

// begin takes in a frame, and returns how much is kept then.
func (f *frames) begin(kind, flags byte, stream uint32) int {
	has, known := f.open[stream]
	switch {
	case kind == frameReset, kind <= frameHeaders && flags&endStream != 0:
		f.kept -= has
		delete(f.open, stream)
	case kind == frameData || kind == frameHeaders && !known:
		f.open[stream] = has + f.rest + aRequest
		f.kept += f.rest + aRequest
	}
	return f.kept
}
