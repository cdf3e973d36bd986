package intake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var bounds = Bounds{Process: 128 * mib, Tenant: 32 * mib}

func ask(tenant string, bytes int64, wait time.Duration) Ask {
	return Ask{Tenant: tenant, Bytes: bytes, Wait: wait}
}

// A caller waits until others have given memory back, and no longer than it may.
func TestIntake_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(bounds)
		var first, second, third Claim
		testkit.OK(t, in.Ask(t.Context(), &first, ask("a", 30*mib, 0)))
		go func() {
			time.Sleep(3 * time.Second)
			first.Release()
			first.Release()
		}()
		refused, ok := errors.AsType[*Refused](in.Ask(t.Context(), &second, ask("a", 30*mib, 2*time.Second)))
		if !ok || refused.Process || second.Waited != 2*time.Second {
			t.Errorf("after %s: %+v", second.Waited, refused)
		}
		if err := in.Ask(t.Context(), &third, ask("a", 30*mib, 2*time.Second)); err != nil || third.Waited != time.Second {
			t.Errorf("after %s: %v", third.Waited, err)
		}
		if in.Bytes() != 30*mib {
			t.Errorf("%d bytes", in.Bytes())
		}
		third.Release()
		if in.Bytes() != 0 {
			t.Errorf("%d bytes are left", in.Bytes())
		}
	})
}

// A caller that goes while it waits leaves the line, and lets those behind it through.
func TestIntake_GoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(bounds)
		var first, second, third Claim
		_ = in.Ask(t.Context(), &first, ask("a", 20*mib, 0))
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := in.Ask(ctx, &second, ask("a", 20*mib, time.Hour)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the caller that went: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := in.Ask(t.Context(), &third, ask("a", 10*mib, time.Hour)); err != nil {
				t.Errorf("the one behind it: %v", err)
			}
		})
		synctest.Wait()
		cancel(io.ErrClosedPipe)
		wg.Wait()
	})
}

// Small bodies take no lock and allocate nothing, until their part is used up.
func TestIntake_Small(t *testing.T) {
	in := New(Bounds{Process: 4 * mib, Tenant: 2 * mib})
	in.mu.Lock() // whoever takes it would hang
	var c Claim
	if n := testkit.Allocs(t, 100, func() {
		if in.Ask(context.Background(), &c, ask("a", Small, 0)) != nil {
			t.Error("refused")
		}
		c.Arrived(Small)
		c.Release()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	in.mu.Unlock()
	claims := make([]Claim, 100)
	admitted := 0
	for i := range claims {
		if in.Ask(t.Context(), &claims[i], ask("a", Small, 0)) == nil {
			admitted++
		}
	}
	if want := (mib + 2*mib) / Small; admitted != want {
		t.Errorf("%d bodies of one tenant, want %d: a quarter of all, and its own part of the rest", admitted, want)
	}
	for i := range claims {
		claims[i].Release()
	}
	if in.Bytes() != 0 {
		t.Errorf("%d bytes are left", in.Bytes())
	}
}

// A body of unknown length takes as much memory as it needs, to a factor of two.
func TestIntake_Growing(t *testing.T) {
	for _, size := range []int{0, 1, 8 << 10, Small, Small + 1, 3 * mib, 5 * mib} {
		in := New(bounds)
		var c Claim
		testkit.OK(t, in.Ask(t.Context(), &c, ask("a", Small, 0)))
		sent := bytes.Repeat([]byte("x"), size)
		got, err := c.Read(t.Context(), iotest.HalfReader(bytes.NewReader(sent)), -1, 5*mib)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes: %v, %d came", size, err, len(got))
		}
		if has := in.Bytes(); has != int64(cap(got))-Spare || has > max(firstBuffer, 2*int64(size)) {
			t.Errorf("%d bytes have %d, of a buffer of %d", size, has, cap(got))
		}
		c.Release()
		if in.Bytes() != 0 {
			t.Errorf("%d bytes: %d are left", size, in.Bytes())
		}
	}
}

func TestIntake_ReadEnds(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF))
	for _, c := range []struct {
		name      string
		r         io.Reader
		announced int64
		want      error
	}{
		{"larger than allowed", strings.NewReader(strings.Repeat("x", 101)), -1, ErrTooLarge},
		{"as large as allowed", strings.NewReader(strings.Repeat("x", 100)), -1, nil},
		{"broken off", broken, -1, io.ErrUnexpectedEOF},
		{"less than announced", strings.NewReader("abc"), 4, io.ErrUnexpectedEOF},
		{"more than announced", strings.NewReader("abc"), 2, ErrTooLarge},
		{"as announced", strings.NewReader("abc"), 3, nil},
	} {
		in := New(bounds)
		var claim Claim
		_ = in.Ask(t.Context(), &claim, ask("a", max(0, c.announced), 0))
		if _, err := claim.Read(t.Context(), c.r, c.announced, 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		claim.Release()
		if in.Bytes() != 0 {
			t.Errorf("%s: %d bytes are left", c.name, in.Bytes())
		}
	}
}

// A tenant that has as many bodies on their way in as it may waits until one has arrived.
func TestIntake_Readers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(bounds)
		claims := make([]Claim, 3)
		two := Ask{Tenant: "a", Bytes: mib, Readers: 2, Wait: time.Second}
		for i := range 2 {
			testkit.OK(t, in.Ask(t.Context(), &claims[i], two))
		}
		var refused Claim
		if r, ok := errors.AsType[*Refused](in.Ask(t.Context(), &refused, two)); !ok || !r.Readers {
			t.Errorf("the third: %+v", r)
		}
		go func() {
			time.Sleep(time.Second / 2)
			claims[0].Arrived(mib)
		}()
		if err := in.Ask(t.Context(), &claims[2], two); err != nil || claims[2].Waited != time.Second/2 {
			t.Errorf("after %s: %v", claims[2].Waited, err)
		}
	})
}

// Other bounds hold at once, for those who wait too.
func TestIntake_SetBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(bounds)
		var first, second Claim
		_ = in.Ask(t.Context(), &first, ask("a", 30*mib, 0))
		go func() {
			time.Sleep(time.Second)
			in.SetBounds(Bounds{Process: 256 * mib, Tenant: 64 * mib})
		}()
		if err := in.Ask(t.Context(), &second, ask("a", 30*mib, time.Minute)); err != nil || second.Waited != time.Second {
			t.Errorf("after %s: %v", second.Waited, err)
		}
	})
}

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
