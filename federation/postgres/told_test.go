package postgres

import (
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

func TestFirst(t *testing.T) {
	t.Parallel()
	storetest.First(t, open(t, place(t)).First)
}
