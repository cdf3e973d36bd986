package process

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// Ctrl-C in the middle: no more calls, and a report of those that were made.
func TestLoad_Interrupted(t *testing.T) {
	t.Parallel()
	model := processtest.NewProvider(t, mock.Config{})
	url := strings.TrimSuffix(model.URL, "/v1")
	// With one call at a time, each one that comes shows that the answer before was read.
	p := processtest.Command{Args: []string{"load", "--url", url, "--rate", "50", "--for", "1h", "--max-in-flight", "1"}}.Start(t)
	processtest.Until(t, func() error {
		if n := model.Stats().Completed; n < 3 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	p.End(t, syscall.SIGINT, 0)
	if out := p.Output(); !strings.Contains(out, "The run was cut short after ") || !regexp.MustCompile(`(?m)^all +\d+ +\d+ +[1-9]`).MatchString(out) {
		t.Errorf("the report is\n%s", out)
	}
}
