package input

import (
	"io"
	"sync/atomic"
)

// inputEndless reads as spaces.
type inputEndless struct{}

func (inputEndless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// inputCounter counts what is read of r.
type inputCounter struct {
	r io.Reader
	n atomic.Int64
}

func (c *inputCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
