//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// terminal is a llmgov in a pseudo-terminal, and all that it has written to it.
type terminal struct {
	*os.File
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func openTerminal(t *testing.T, rows, cols uint16, args ...string) *terminal {
	t.Helper()
	term := &terminal{cmd: exec.Command("llmgov", args...), done: make(chan struct{})}
	term.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8"}
	term.cmd.Dir = t.TempDir()
	f, err := pty.StartWithSize(term.cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		t.Fatal(err)
	}
	term.File = f
	go func() {
		defer close(term.done)
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // the process has ended
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		<-term.done
		f.Close()
	})
	return term
}

func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// press types, and waits until something is drawn that was not there when it did.
func (term *terminal) press(t *testing.T, keys, want string) {
	t.Helper()
	before := len(term.written())
	if _, err := term.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	term.await(t, before, want)
}

func (term *terminal) await(t *testing.T, from int, want string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(ansi.Strip(term.written()[from:]), want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q is not drawn; this is:\n%q", want, term.written()[from:])
		}
	}
}

// In a terminal, in front of a real gateway under load: it draws, obeys, survives the gateway,
// and leaves the terminal as it was.
func TestTop_Terminal(t *testing.T) {
	serve := func(admin string) *process {
		p, err := launch(t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, "serve", "--traffic", "--listen", "127.0.0.1:0", "--admin-listen", admin)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		if err := p.listening(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := serve("127.0.0.1:0")
	admin := strings.TrimPrefix(p.admin, "http://")

	term := openTerminal(t, 24, 80, "top", "--admin", admin)
	term.await(t, 0, "MINUTE")
	term.press(t, "\t", "ENTITLED")
	term.press(t, "/ent", "filter: ent_")
	term.press(t, "\r\r", "> tenant enterprise")
	term.press(t, "?", "DEBT      tokens that it had before its turn")
	term.press(t, "x", "esc back")
	before := len(term.written())
	if err := pty.Setsize(term.File, &pty.Winsize{Rows: 40, Cols: 150}); err != nil {
		t.Fatal(err)
	}
	term.await(t, before, "p pause") // there is room for it now

	before = len(term.written())
	p.kill()
	term.await(t, before, "asking every second: no gateway answers (")
	before = len(term.written())
	serve(admin)
	term.await(t, before, "running") // its line is drawn anew

	if _, err := term.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	<-term.done
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if all := term.written(); !strings.Contains(all, "\x1b[?1049h") || !strings.Contains(all[len(all)-200:], "\x1b[?1049l") {
		t.Errorf("the terminal is not left as it was: %q", all[len(all)-200:])
	}
}
