package intake

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Bodies are read into memory that is used again, because memory is dear to clear and to collect: of a short call, its
// body would be a third of all. It lies in pools by class, four to each power of two, so that a body wastes at most a
// quarter of its buffer, unless it is smaller than smallestReused. What lies there unused goes with the next collections
// of garbage.
const (
	smallestReused = 2 << 10
	largestReused  = 1 << 20
	classes        = 4*9 + 1 // from smallestReused to largestReused, with room around them
)

var pools [classes]sync.Pool

// classOf is the class of buffers for so many bytes, and how large these are.
func classOf(bytes int64) (class int, size int64) {
	octave := bits.Len64(uint64(bytes-1)) - 1
	step := int64(1) << (octave - 2)
	size = (bytes + step - 1) / step * step
	first := bits.Len64(smallestReused) - 1
	return 4*(octave-first) + int((size-1)>>(octave-2)) - 4, size
}

// buffer is memory for one body. Those who may read it are its users; behind the last of them it is used
// for another body.
type buffer struct {
	bytes []byte
	class int
	users atomic.Int32
}

// newBuffer returns a buffer with one user, for a body of so many bytes.
func newBuffer(bytes int64) *buffer {
	class, size := classOf(max(bytes, smallestReused) + 2*Spare)
	b, _ := pools[class].Get().(*buffer)
	if b == nil {
		b = &buffer{bytes: make([]byte, size), class: class}
	}
	b.users.Store(1)
	return b
}

// leave ends the use by one user. There is nothing to it if b is nil.
func (b *buffer) leave() {
	if b != nil && b.users.Add(-1) == 0 {
		pools[b.class].Put(b)
	}
}
