package durable

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNotes: what was set a second ago is there for the next process, however this one ends.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		log := slog.New(slog.DiscardHandler)
		n := OpenNotes(dir, log)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }()
		n.Set("a", []byte("1"))
		n.Set("b", []byte{0, 255})
		n.Set("a", []byte("2"))
		time.Sleep(1100 * time.Millisecond)
		next := OpenNotes(dir, log)
		if string(next.Get("a")) != "2" || !bytes.Equal(next.Get("b"), []byte{0, 255}) || next.Get("c") != nil {
			t.Errorf("a is %q, b %q and c %q", next.Get("a"), next.Get("b"), next.Get("c"))
		}
		n.Set("a", []byte("3"))
		cancel()
		synctest.Wait()
		if got := OpenNotes(dir, log).Get("a"); string(got) != "3" {
			t.Errorf("after an end in order a is %q", got)
		}
	})
}

// TestNotes_Unreadable: a file that cannot be read is logged, and begun anew.
func TestNotes_Unreadable(t *testing.T) {
	for _, text := range []string{"", "{", `{"format": 2, "values": {"a": "MQ=="}}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, notesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		n := OpenNotes(dir, slog.New(slog.NewTextHandler(&said, nil)))
		if n.Get("a") != nil || !strings.Contains(said.String(), "begun anew") {
			t.Errorf("%q: a is %q, and the log says %q", text, n.Get("a"), said.String())
		}
		n.Set("a", []byte("1"))
		if err := n.write(); err != nil {
			t.Error(err)
		}
		if got := OpenNotes(dir, slog.New(slog.DiscardHandler)).Get("a"); string(got) != "1" {
			t.Errorf("then a is %q", got)
		}
	}
}
