package instance

import (
	"context"
	"log/slog"
	"time"

	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/run/durable"
)

// told knows what was told already: by the store of all gateways, else by state_dir. Without both a process knows only of itself, and the caller does that.
type told struct {
	herald store.Herald   // nil without a store
	notes  *durable.Notes // nil without a state_dir
}

func newTold(dir string, shared *sharing, log *slog.Logger) (t told) {
	if shared != nil {
		t.herald, _ = shared.store.(store.Herald)
		t.notes = shared.notes
		return t
	}
	if dir != "" {
		t.notes = durable.OpenNotes(dir, log)
	}
	return t
}

// first is store.Herald's First.
func (t *told) first(ctx context.Context, what string, mine, until time.Time) (bool, error) {
	switch {
	case t.herald != nil:
		return t.herald.First(ctx, what, mine, until)
	case t.notes == nil:
		return true, nil
	}
	const prefix = "told "
	now := time.Now()
	t.notes.Prune(prefix, func(value []byte) bool {
		past, err := time.Parse(time.RFC3339, string(value))
		return err != nil || !past.After(now)
	})
	held := t.notes.Get(prefix + what)
	first := held == nil || string(held) == mine.Format(time.RFC3339Nano)
	if first {
		t.notes.Set(prefix+what, []byte(until.Format(time.RFC3339Nano)))
	}
	return first, nil
}
