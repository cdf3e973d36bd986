package postgres

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

func TestFirst(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	storetest.First(t, s.First)
	past := time.Now().Add(-time.Minute)
	for _, what := range []string{"over", "over", "also over"} {
		if first := testkit.Must(s.First(t.Context(), what, time.Time{}, past))(t); !first {
			t.Errorf("%s was told for ever", what)
		}
	}
	var rows int
	testkit.OK(t, s.db.QueryRow(t.Context(), "SELECT count(*) FROM llmgov_told WHERE until <= $1", past).Scan(&rows))
	if rows > 0 {
		t.Errorf("%d rows are left of what is over", rows)
	}
}
