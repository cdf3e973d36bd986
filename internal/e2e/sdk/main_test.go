// Package sdk tests OpenAI's SDK for Go and go-openai against a gateway on real sockets, and the
// headers that they read.
package sdk

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
