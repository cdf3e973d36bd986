package relay

import (
	"bytes"
	"io"
	"time"

	"github.com/llmgov/llmgov/streaming"
)

// Begun is the body of an answer of which the beginning was read to see what it is, and is read again.
type Begun struct {
	io.ReadCloser        // the rest
	piece         []byte // with the beginning
	at, end       int    // what of it is to be read again
	whole         bool   // nothing comes behind it
	err           error  // that came behind it
}

// mostPreamble is the time after which the next piece of a stream is not kept back, even if its answer has not begun, because clients take
// silence for a lost connection.
const mostPreamble = 10 * time.Second

// Begin reads the beginning of a body of some length, or of -1. The beginning of JSON, which may be short, and which its client wants whole,
// is as much as a piece holds. The beginning of anything else is what is read first. If that is a preamble of a stream, and waits is set, the
// beginning reaches to the first part of the answer.
func (b *Begun) Begin(body io.ReadCloser, length int64, waits bool) {
	*b = Begun{ReadCloser: body, piece: newPiece(false)}
	until := time.Now().Add(mostPreamble)
	for b.err == nil && b.end < len(b.piece) && (b.end == 0 || int64(b.end) != length) {
		var n int
		n, b.err = body.Read(b.piece[b.end:])
		b.end += n
		if n > 0 && !isJSON(b.piece[:b.end]) && !(waits && isPreamble(b.piece[:b.end]) && time.Now().Before(until)) {
			break
		}
	}
	b.whole = b.err == io.EOF || b.end > 0 && int64(b.end) == length
}

func isJSON(beginning []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(beginning, " \t\r\n"), []byte("{"))
}

func isPreamble(beginning []byte) bool {
	return streaming.Look(beginning) == streaming.Events && streaming.Open(beginning, false).Preamble
}

// Whole reports whether the beginning is all of the answer.
func (b *Begun) Whole() bool { return b.whole }

// Cut is the error by which the body ended within the beginning; nil if it did not.
func (b *Begun) Cut() error {
	if b.whole {
		return nil
	}
	return b.err
}

// Ended reports whether nothing comes behind the beginning, be it whole or cut off.
func (b *Begun) Ended() bool { return b.whole || b.err != nil }

// Beginning is what was read, as long as nothing of it is read again.
func (b *Begun) Beginning() []byte { return b.piece[:b.end] }

// Read implements io.Reader.
func (b *Begun) Read(p []byte) (n int, err error) {
	if b.at == b.end && b.err == nil {
		return b.ReadCloser.Read(p)
	}
	n = copy(p, b.piece[b.at:b.end])
	b.at += n
	if b.at < b.end {
		return n, nil
	}
	if b.piece != nil {
		recycle(b.piece)
		b.piece = nil
		b.at = 0
		b.end = 0
	}
	return n, b.err
}

// Wait returns once a Read does not have to wait long, and true; or false at once if the rest cannot tell.
func (b *Begun) Wait() bool {
	if b.at < b.end || b.err != nil {
		return true
	}
	rest, ok := b.ReadCloser.(interface{ Wait() bool })
	return ok && rest.Wait()
}
