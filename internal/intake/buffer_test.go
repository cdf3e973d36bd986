package intake

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/llmgov/llmgov/internal/testkit"
)

// A class has buffers of one size, which wastes at most a quarter.
func TestClassesOfBuffers(t *testing.T) {
	sizes := map[int]int64{}
	before := -1
	for bytes := int64(smallestReused + Spare); bytes <= largestReused+Spare; bytes += 509 {
		class, size := classOf(bytes)
		if class < before || class >= classes || size < bytes || size > bytes+bytes/4 {
			t.Fatalf("%d bytes: class %d of %d, %d bytes", bytes, class, classes, size)
		}
		if was := sizes[class]; was != 0 && was != size {
			t.Fatalf("class %d has %d and %d bytes", class, was, size)
		}
		sizes[class] = size
		before = class
	}
	if _, first := sizes[0]; !first {
		t.Error("no body is of the first class")
	}
}

// received is a claim with a body in it that is used again.
func received(t *testing.T, sent []byte) (*Claim, []byte) {
	t.Helper()
	in := New(Bounds{Process: 8 << 20, Tenant: 8 << 20})
	c := &Claim{}
	testkit.OK(t, in.Ask(t.Context(), c, Ask{Tenant: "a", Bytes: int64(len(sent)), Reuse: true}))
	body, err := c.Read(t.Context(), bytes.NewReader(sent), int64(len(sent)), 1<<20)
	if err != nil || !bytes.Equal(body, sent) || cap(body) != len(body)+Spare {
		t.Fatalf("got %d bytes of %d, room for %d: %v", len(body), len(sent), cap(body), err)
	}
	return c, body
}

// The memory of a body has users until the claim is released and all that was opened is closed.
func TestMemoryIsUsedAgainBehindItsLastUser(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	c, body := received(t, sent)
	memory := c.buffer
	first := c.Open(body)
	second := c.Open(body)
	c.Release()
	c.Release()
	if got, err := io.ReadAll(iotest.OneByteReader(first)); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes of %d: %v", len(got), len(sent), err)
	}
	for _, s := range []*Sent{first, second} {
		if n := memory.users.Load(); n == 0 {
			t.Error("the memory is free, and a body is open")
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errClosed) {
			t.Errorf("read %d bytes of a closed body: %v", n, err)
		}
		if n, err := s.WriteRest(io.Discard, 1); n != 0 || !errors.Is(err, errClosed) {
			t.Errorf("wrote %d bytes of a closed body: %v", n, err)
		}
	}
	if n := memory.users.Load(); n != 0 {
		t.Errorf("the memory still has %d users", n)
	}
}

// closing is a writer during whose writes something else closes the body.
type closing struct {
	t *testing.T
	s *Sent
	m *buffer
}

// Write implements io.Writer.
func (c closing) Write(p []byte) (int, error) {
	_ = c.s.Close()
	if c.m.users.Load() == 0 {
		c.t.Error("the memory is free while it is written")
	}
	return len(p), nil
}

func TestMemoryIsUsedWhileItIsWritten(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	c, body := received(t, sent)
	memory := c.buffer
	s := c.Open(body)
	c.Release()
	if n, err := s.WriteRest(closing{t, s, memory}, 1<<20); n != int64(len(sent)) || err != nil {
		t.Errorf("wrote %d bytes of %d: %v", n, len(sent), err)
	}
	if n := memory.users.Load(); n != 0 {
		t.Errorf("the memory still has %d users", n)
	}
}

// Memory is used again for bodies of all sizes up to the largest.
func TestMemoryOfSmallBodiesIsUsedAgain(t *testing.T) {
	for _, size := range []int{1, 400, smallestReused - 1, smallestReused} {
		c, body := received(t, make([]byte, size))
		if !c.Reused() || len(body) != size || cap(body) != size+Spare {
			t.Errorf("%d bytes: %d of %d are used, reused is %v", size, len(body), cap(body), c.Reused())
		}
		c.Release()
	}
}

// Empty bodies, very large ones, and those of callers that keep parts of them have memory of their own.
func TestMemoryIsNotUsedAgain(t *testing.T) {
	in := New(Bounds{Process: 1 << 30, Tenant: 1 << 30})
	for _, ask := range []Ask{{Bytes: 0, Reuse: true}, {Bytes: largestReused + 1, Reuse: true}, {Bytes: 1 << 20}} {
		c := &Claim{}
		testkit.OK(t, in.Ask(t.Context(), c, ask))
		if _, err := c.Read(t.Context(), bytes.NewReader(make([]byte, ask.Bytes)), ask.Bytes, 1<<30); err != nil || c.Reused() {
			t.Errorf("%+v: reused is %v, %v", ask, c.Reused(), err)
		}
		c.Release()
	}
}

// There is room on both sides of a body.
//
// Seen to fail with: no Spare before the body.
func TestAround(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	c, body := received(t, sent)
	memory, start := c.Around(body)
	if start != Spare || &memory[start] != &body[0] || cap(memory) != Spare+len(sent)+Spare {
		t.Errorf("a body of %d bytes begins at %d of %d", len(sent), start, cap(memory))
	}
	c.Release()
}
