package batch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each of a full batch's streams is as fast as the number that run allows, its first token comes as soon as alone, and the cache
// holds no more than it has room for: the others are interrupted, and all come to their end.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(4, 100)
		firsts := make([]time.Duration, 8)
		ends := make([]time.Duration, 8)
		start := time.Now()
		var group sync.WaitGroup
		for i := range ends {
			group.Go(func() {
				s := b.Enter(10, 100*time.Millisecond, 10*time.Millisecond)
				defer s.Leave()
				if !s.Wait(t.Context(), 0) {
					t.Error("no first token")
				}
				firsts[i] = time.Since(start)
				if !s.Wait(t.Context(), 20) {
					t.Error("no last token")
				}
				ends[i] = time.Since(start)
			})
		}
		most := 0
		for range 50 {
			time.Sleep(7 * time.Millisecond)
			synctest.Wait()
			running, waiting, used := b.Load()
			most = max(most, waiting)
			if used > 1 || running == 0 && waiting > 0 {
				t.Errorf("%d run and %d wait, with %.2f of the cache", running, waiting, used)
			}
		}
		group.Wait()
		for i, first := range firsts {
			if first != 100*time.Millisecond {
				t.Errorf("the first token of call %d came after %s", i, first)
			}
			if ends[i] < 300*time.Millisecond || ends[i] > time.Second {
				t.Errorf("call %d ended after %s", i, ends[i])
			}
		}
		if most < 3 {
			t.Errorf("at most %d calls were interrupted, of 8 of which 3 fit", most)
		}
		if running, waiting, used := b.Load(); running+waiting > 0 || used > 0 {
			t.Errorf("in the end %d run and %d wait, with %.2f of the cache", running, waiting, used)
		}
	})
}

// A call whose caller leaves gives its room back, whether it runs or was interrupted.
func TestBatch_CallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0, 30)
		ctx, leave := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				s := b.Enter(12, time.Second, time.Second)
				defer s.Leave()
				if s.Wait(ctx, 1000) {
					t.Error("a call came to its end")
				}
			})
		}
		time.Sleep(5 * time.Second)
		leave()
		group.Wait()
		if running, waiting, used := b.Load(); running+waiting > 0 || used > 0 {
			t.Errorf("%d run and %d wait, with %.2f of the cache", running, waiting, used)
		}
	})
}
