// Package realtime tests realtime sessions: their slots, limits and charges.
package realtime

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
