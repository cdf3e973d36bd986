package intake

import (
	"context"
	"errors"
	"io"
)

// Spare is room before a body and behind it, in which edits can be made without a copy: all that llmgov writes, but for names of models that are
// much longer than their aliases. A body of unknown length has none before it.
const Spare = 256

// ErrTooLarge is the error of a body of unknown length that is larger than it may be.
var ErrTooLarge = errors.New("intake: the body is too large")

// Read reads a body to its end, which is when net/http begins to notice that the client goes away.
// The claim is for the bytes that were announced or, if these are negative, for the first Small; it
// grows as the body comes, up to most.
func (c *Claim) Read(ctx context.Context, r io.Reader, announced, most int64) ([]byte, error) {
	var body []byte
	var err error
	if announced >= 0 {
		body, err = c.readAnnounced(r, announced)
	} else {
		body, err = c.readGrowing(ctx, r, most)
	}
	if err != nil {
		return nil, err
	}
	c.Arrived(int64(cap(body)) - Spare)
	return body, nil
}

// Around is where the body lies that Read returned: from start on in memory, whose capacity is the room behind it.
func (c *Claim) Around(body []byte) (memory []byte, start int) {
	return c.memory, len(c.memory) - len(body)
}

func (c *Claim) readAnnounced(r io.Reader, bytes int64) ([]byte, error) {
	body := c.room(bytes)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return body, atEnd(r, body)
}

// room is memory for a body, with Spare before it and behind it.
func (c *Claim) room(bytes int64) []byte {
	if !c.ask.Reuse || bytes == 0 || bytes > largestReused {
		c.memory = make([]byte, Spare+bytes, Spare+bytes+Spare)
	} else {
		c.buffer = newBuffer(bytes)
		c.memory = c.buffer.bytes[: Spare+bytes : Spare+bytes+Spare]
	}
	return c.memory[Spare:]
}

// atEnd fails unless r has nothing more behind a body, in whose room a byte of that would be.
func atEnd(r io.Reader, body []byte) error {
	n, err := io.ReadFull(r, body[len(body):len(body)+1])
	switch {
	case n > 0:
		return ErrTooLarge
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// firstBuffer is what a body of unknown length begins with.
const firstBuffer = 8 << 10

// readGrowing doubles the buffer until the body fits.
func (c *Claim) readGrowing(ctx context.Context, r io.Reader, most int64) ([]byte, error) {
	size := min(most, firstBuffer)
	body := make([]byte, 0, size+Spare)
	for {
		var err error
		body, err = fill(r, body, size)
		c.memory = body
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
		if size == most {
			return body, atEnd(r, body)
		}
		size = min(most, 2*size)
		if err := c.Grow(ctx, size); err != nil {
			return nil, err
		}
		larger := make([]byte, len(body), size+Spare)
		copy(larger, body)
		body = larger
	}
}

// fill reads until a body has size bytes. The error is io.EOF if it ended before.
func fill(r io.Reader, body []byte, size int64) ([]byte, error) {
	for int64(len(body)) < size {
		n, err := r.Read(body[len(body):size])
		body = body[:len(body)+n]
		if err != nil {
			return body, err
		}
	}
	return body, nil
}
