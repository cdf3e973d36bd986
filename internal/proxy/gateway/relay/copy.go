package relay

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// An answer is passed on in pieces. What has come is read into a large one, which saves reads and writes. A body that cannot wait without a piece
// holds a small one until its bytes are many.
const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
	// manyBytes of one read are followed by a large piece.
	manyBytes = smallPiece / 2
)

// Pieces less than burst apart did not come as they were generated: no model is so fast. Copy pauses between them, and more of them come
// together, because reads and writes are most of what the chunks of a burst cost. A piece of largeEnough bytes is worth its own, and a body that
// cannot wait has no more for one read: over TLS, a read brings one record.
const (
	burst       = 200 * time.Microsecond
	pause       = burst / 2
	largeEnough = largePiece / 2
)

var (
	smallPieces = sync.Pool{New: func() any { return new([smallPiece]byte) }}
	largePieces = sync.Pool{New: func() any { return new([largePiece]byte) }}
)

// newPiece returns a piece, large or small.
func newPiece(large bool) []byte {
	if large {
		return largePieces.Get().(*[largePiece]byte)[:]
	}
	return smallPieces.Get().(*[smallPiece]byte)[:]
}

// recycle lets a piece be used again.
func recycle(piece []byte) {
	if len(piece) == smallPiece {
		smallPieces.Put((*[smallPiece]byte)(piece))
	} else {
		largePieces.Put((*[largePiece]byte)(piece))
	}
}

// Copy passes the body of an answer on until it ends with io.EOF, or one side is gone. The bytes of a body without a length go to the
// client as they come, in a burst with pauses, and the last ones with the end of the answer, which net/http writes.
func (w *Writer) Copy(resp *http.Response) error {
	waits, canWait := resp.Body.(interface{ Wait() bool })
	n := 0
	for {
		last := w.written
		come := canWait && waits.Wait()
		piece := newPiece(come || n >= manyBytes)
		var err error
		n, err = resp.Body.Read(piece)
		asItComes := resp.ContentLength < 0 && err != io.EOF
		if n > 0 {
			if gone := w.pass(piece[:n], asItComes); gone != nil {
				return gone // and the piece with it, which HTTP/2 may still be reading
			}
		}
		recycle(piece)
		if err != nil {
			return err
		}
		if come && asItComes && n < largeEnough && w.written.Sub(last) < burst {
			time.Sleep(pause)
		}
	}
}
