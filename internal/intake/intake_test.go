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

	"github.com/llmgov/llmgov/internal/testkit"
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
