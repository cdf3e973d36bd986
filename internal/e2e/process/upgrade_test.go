package process

import (
	"os"
	"testing"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// TestUpgrade_Journal: a gateway without a store is killed under load, and started again as the other release in the same
// folder, again and again. The provider, which counts strictly, refuses nothing, because each knows what the other let in.
func TestUpgrade_Journal(t *testing.T) {
	previous := os.Getenv("LLMGOV_PREVIOUS")
	if previous == "" {
		t.Skip("needs the release before: make test-upgrade")
	}
	t.Parallel()
	provider := processtest.NewProvider(t, mock.Config{RPM: 8, OutputTokens: 480})
	program := func(n int) string { return []string{previous, ""}[n%2] }
	killed(t, newFolder(t, provider.URL, "rpm: 8", kept), 10, program, func(refused int64) bool {
		return provider.Stats().Admitted >= 4 && refused > 0
	})
	if st := provider.Stats(); st.Refused > 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
