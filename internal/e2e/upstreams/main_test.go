// Package upstreams tests the choice of upstreams, failover, breakers, and answers that upstreams
// should not give.
package upstreams

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
