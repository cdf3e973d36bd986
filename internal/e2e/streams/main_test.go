// Package streams tests streams of every dialect that end in every way: slots, limits and charges
// hold afterwards.
package streams

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
