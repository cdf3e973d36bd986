// Package admission tests whether calls are let in as the limits, budgets and shares say, through the
// whole stack.
package admission

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
