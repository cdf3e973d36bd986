package instance

import (
	"log/slog"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

// A state_dir knows what was told as a store does.
func TestTold_InStateDir(t *testing.T) {
	t.Parallel()
	told := newTold(t.TempDir(), nil, slog.New(slog.DiscardHandler))
	storetest.First(t, told.first)
}
