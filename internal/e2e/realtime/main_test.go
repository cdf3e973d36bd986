// Package realtime tests realtime sessions: their slots, limits and charges.
package realtime

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
