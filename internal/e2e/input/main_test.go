// Package input tests requests that are malformed, oversized, ambiguous or hostile.
package input

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
