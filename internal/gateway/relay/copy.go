package relay

import (
	"io"
	"net/http"
	"sync"
)

// An answer is passed on in pieces. What has come is read into a large one, which saves reads and writes. A body that cannot wait without a piece
// holds a small one until its bytes are many.
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
// client as they come, and the last ones with the end of the answer, which net/http writes.
func (w *Writer) Copy(resp *http.Response) error {
	waits, canWait := resp.Body.(interface{ Wait() bool })
	n := 0
	for {
		come := canWait && waits.Wait()
		piece := newPiece(come || n >= manyBytes)
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
