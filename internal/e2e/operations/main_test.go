// Package operations tests the gateway as its operator sees it: reloads, usage, traces, crashes and
// the admin API.
package operations

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
