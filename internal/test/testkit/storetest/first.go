package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// First checks that of all who ask a store about something until a time one is the first, and after that time again.
func First(t *testing.T, ask func(ctx context.Context, what string, until time.Time) (bool, error)) {
	t.Helper()
	hour := time.Now().Add(time.Hour)
	soon := time.Now().Add(time.Second)
	for i, c := range []struct {
		what  string
		until time.Time
		first bool
	}{{"a", hour, true}, {"a", hour, false}, {"b 80% {x}", soon, true}, {"b 80% {x}", hour, false}} {
		if got := testkit.Must(ask(t.Context(), c.what, c.until))(t); got != c.first {
			t.Errorf("question %d about %s: %v", i, c.what, got)
		}
	}
	for late := time.Now().Add(time.Minute); !testkit.Must(ask(t.Context(), "b 80% {x}", hour))(t); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("what was told until a second later is told for ever")
		}
	}
}
