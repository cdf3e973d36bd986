package relay

import (
	"io"
	"net/http"
	"sync"
)

// An answer is passed on in pieces. A stream is silent most of the time, and holds none then if its body can wait without one; else
// a small one. While its bytes come faster than they are passed on, or are many, a large one saves reads and writes.
const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
	// manyBytes of one read are followed by a large piece.
	manyBytes = smallPiece / 2
)

var (
	smallPieces = sync.Pool{New: func() any { return new([smallPiece]byte) }}
	largePieces = sync.Pool{New: func() any { return new([largePiece]byte) }}
)

// newPiece returns a piece for what comes after a read of so many bytes.
func newPiece(read int) []byte {
	if read >= manyBytes {
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
// client as they come, and the last ones with the end of the answer, which net/http writes.
func (w *Writer) Copy(resp *http.Response) error {
	waits, canWait := resp.Body.(interface{ Wait() })
	n := 0
	for {
		if canWait {
			waits.Wait()
		}
		piece := newPiece(n)
		var err error
		n, err = resp.Body.Read(piece)
		if n > 0 {
			if gone := w.pass(piece[:n], resp.ContentLength < 0 && err != io.EOF); gone != nil {
				return gone // and the piece with it, which HTTP/2 may still be reading
			}
		}
		recycle(piece)
		if err != nil {
			return err
		}
	}
}
