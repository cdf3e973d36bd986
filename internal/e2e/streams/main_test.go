// Package streams tests streams of every dialect that end in every way: slots, limits and charges
// hold afterwards.
package streams

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
