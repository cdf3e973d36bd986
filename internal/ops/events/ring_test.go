package events

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/governor"
)

func numbered(n int) governor.Event {
	return governor.Event{Request: governor.Request{ID: fmt.Sprint(n)}}
}

// Whatever is written and read in whatever order, a reader gets each event once and in
// order, or is told that it was lost, and only what the ring has overwritten is lost.
func TestNothingIsLostUntold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		ring := NewRing(size)
		from := rapid.IntRange(1, 6).Draw(t, "from")
		reader := ring.Follow(uint64(from))
		defer reader.Close()
		// by number
		written := 0
		seen := from - 1
		buf := make([]Event, 0, rapid.IntRange(1, 10).Draw(t, "buffer"))
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "write") {
				written++
				ring.Observe(numbered(written))
				continue
			}
			if written <= seen {
				continue // it would wait
			}
			list, lost := reader.Read(t.Context(), buf)
			if want := max(0, written-size-seen); int(lost) != want {
				t.Fatalf("after %d of %d events in a ring of %d, %d are told to be lost, not %d", seen, written, size, lost, want)
			}
			seen += int(lost)
			for _, e := range list {
				seen++
				if int(e.Seq) != seen || e.Request.ID != fmt.Sprint(seen) {
					t.Fatalf("event %d is told as %d, with what was of %s", seen, e.Seq, e.Request.ID)
				}
			}
		}
	})
}

// A reader that never reads holds nobody up, and one that waits is woken.
func TestNobodyWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := NewRing(4)
		slow := ring.Follow(1)
		waiting := ring.Follow(1)
		defer slow.Close()
		got := make(chan Event)
		go func() {
			defer close(got)
			defer waiting.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for {
				list, _ := waiting.Read(ctx, make([]Event, 0, 1))
				if list == nil {
					return
				}
				got <- list[0]
			}
		}()
		synctest.Wait()
		for n := range 100 {
			ring.Observe(numbered(n))
			if e := <-got; e.Request.ID != fmt.Sprint(n) {
				t.Fatalf("who waits for event %d gets %s", n, e.Request.ID)
			}
		}
		if list, lost := slow.Read(t.Context(), make([]Event, 0, 10)); lost != 96 || len(list) != 4 {
			t.Errorf("of 100 events in a ring of 4, %d are lost and %d there", lost, len(list))
		}
		if _, open := <-got; open {
			t.Error("there is an event more than were told")
		}
	})
}
