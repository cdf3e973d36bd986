package governor

import (
	"testing"
	"testing/synctest"
	"time"
)

// What remains of a call is what calls of its kind have taught: by how long they run
// where slots are limited, else by what they produce; it shrinks as the call goes on,
// and is nothing when it has ended.
func TestRemaining(t *testing.T) {
	for _, slots := range []int64{0, 8} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, Config{
				Pools:   []Pool{{Name: "p", TPM: 10_000_000, Concurrency: slots, MaxQueue: 10}},
				Tenants: []Tenant{{Name: "a", Weight: 1000}},
			})
			req := demand("a", 1000)
			near := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want*9/10 || got > want*11/10 {
					t.Errorf("slots %d: %s %v remain, want about %v", slots, what, got, want)
				}
			}
			if o, _ := g.Explain(req); o.Run != 0 {
				t.Errorf("slots %d: a call of which nothing is known is to run for %v", slots, o.Run)
			}
			l, _ := g.Acquire(t.Context(), demand("a", 200)) // at 50 a second
			began := time.Now()
			for age, want := range []time.Duration{0, time.Second, 2 * time.Second, time.Second} {
				time.Sleep(time.Duration(age)*time.Second - time.Since(began))
				near("of a call of 4 s at most of which nothing is known, as long again", l.Remaining(), want)
			}
			l.Release()
			for range 60 { // 400 tokens in 4 s
				l, _ := g.Acquire(t.Context(), req)
				time.Sleep(4 * time.Second)
				l.Settle(Usage{Output: 400})
			}
			o, _ := g.Explain(req)
			near("of a call that did not begin", o.Run, 4*time.Second)
			l, _ = g.Acquire(t.Context(), req)
			near("of one that begins", l.Remaining(), 4*time.Second)
			time.Sleep(time.Second)
			near("of a plain one after 1 s", l.Remaining(), 3*time.Second)
			if slots == 0 {
				l.Progress(200) // in 1 s: it is faster than others
				near("of a stream with 200 of 400 tokens", l.Remaining(), time.Second)
			}
			l.Settle(Usage{Output: 400})
			if got := (Lease{}).Remaining() + l.Remaining(); got != 0 {
				t.Errorf("slots %d: %v remain of what has ended", slots, got)
			}
		})
	}
}
