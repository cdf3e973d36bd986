// Package admission tests whether calls are let in as the limits, budgets and shares say, through the
// whole stack.
package admission

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
