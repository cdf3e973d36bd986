package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// First checks that of all who ask a store about something until a time one is the first, and after that time again, and that it alone can move that.
func First(t *testing.T, ask func(ctx context.Context, what string, mine, until time.Time) (bool, error)) {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	none, soon, minute, hour := time.Time{}, now.Add(time.Second), now.Add(time.Minute), now.Add(time.Hour)
	for i, c := range []struct {
		what        string
		mine, until time.Time
		first       bool
	}{
		{"a", none, hour, true},
		{"a", none, hour, false},
		{"c", none, minute, true},
		{"c", minute.Add(time.Microsecond), hour, false},
		{"c", minute, hour, true},
		{"c", minute, hour, false},
		{"c", none, hour, false},
		{"b 80% {x}", none, soon, true},
		{"b 80% {x}", none, hour, false},
	} {
		if got := testkit.Must(ask(t.Context(), c.what, c.mine, c.until))(t); got != c.first {
			t.Errorf("question %d about %s: %v", i, c.what, got)
		}
	}
	for late := time.Now().Add(time.Minute); !testkit.Must(ask(t.Context(), "b 80% {x}", none, hour))(t); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("what was told until a second later is told for ever")
		}
	}
}
