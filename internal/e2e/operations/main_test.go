// Package operations tests the gateway as its operator sees it: reloads, usage, traces, crashes and
// the admin API.
package operations

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
