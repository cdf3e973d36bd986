package instance

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/sampled"
)

// TestSharing_Unreadable: each account of limits that the store cannot read is in the log with what to delete, and known until it is
// read again. However many there are and however often they come, the log does not fill up.
func TestSharing_Unreadable(t *testing.T) {
	var log bytes.Buffer
	s := &sharing{
		log: slog.New(slog.NewTextHandler(&log, nil)), unreadable: map[string]adminapi.Unreadable{},
		warn: sampled.Gate{Every: time.Minute, Most: 20},
	}
	foreign := fmt.Errorf("redis: %w; delete it (DEL 'llmgov:parts:{acme}')", federation.ErrEncoding)
	s.noteUnreadable("acme", foreign)
	s.noteUnreadable("acme in p", federation.ErrDamaged)
	if list := s.unreadables(); len(list) != 2 || list[0].Owner != "acme" || list[0].Error != foreign.Error() || list[1].Owner != "acme in p" {
		t.Errorf("%+v", list)
	}
	s.noteUnreadable("acme", nil)
	if list := s.unreadables(); len(list) != 1 || list[0].Owner != "acme in p" {
		t.Errorf("%+v", list)
	}
	for range 50 {
		s.noteUnreadable("x", foreign)
		s.noteUnreadable("x", nil)
	}
	if lines := strings.Count(log.String(), "\n"); !strings.Contains(log.String(), "DEL 'llmgov:parts:{acme}'") || lines != 20 {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}
