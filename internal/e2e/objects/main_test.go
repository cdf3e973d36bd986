// Package objects tests the ownership of upstream objects, and the charges of batches and of
// responses in the background.
package objects

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
