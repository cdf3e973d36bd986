// Package upstreams tests the choice of upstreams, failover, breakers, and answers that upstreams
// should not give.
package upstreams

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
