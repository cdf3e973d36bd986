// Package objects tests the ownership of upstream objects, and the charges of batches and of
// responses in the background.
package objects

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
