package instance

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// TestSharing_UnusableLimits: an account of limits that another release wrote is in the log, once a minute; a lost store is
// not, because the beats of pools say so.
func TestSharing_UnusableLimits(t *testing.T) {
	var log bytes.Buffer
	s := &sharing{log: slog.New(slog.NewTextHandler(&log, nil))}
	now := time.Now()
	s.logLimits(now, nil)
	s.logLimits(now, errLost)
	foreign := fmt.Errorf("redis: %w; delete it (DEL 'llmgov:parts:{acme}')", federation.ErrEncoding)
	for _, after := range []time.Duration{0, time.Second, 59 * time.Second, 60 * time.Second} {
		s.logLimits(now.Add(after), foreign)
	}
	if lines := strings.Count(log.String(), "llmgov:parts:{acme}"); lines != 2 || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}
