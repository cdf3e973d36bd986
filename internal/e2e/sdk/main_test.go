// Package sdk tests OpenAI's SDK for Go and go-openai against a gateway on real sockets, and the
// headers that they read.
package sdk

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
