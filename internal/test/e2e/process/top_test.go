//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// terminal is a llmgov in a pseudo-terminal, all that it has written to it, and what that
// shows: what changes is drawn piece by piece.
type terminal struct {
	*os.File
	cmd    *exec.Cmd
	screen vt10x.Terminal
	done   chan struct{}
	mu     sync.Mutex
	text   bytes.Buffer // guarded by mu
}

func openTerminal(t *testing.T, rows, cols uint16, args ...string) *terminal {
	t.Helper()
	llmgov := testkit.Must(processtest.Binary())(t)
	term := &terminal{cmd: exec.Command(llmgov, args...), screen: vt10x.New(vt10x.WithSize(int(cols), int(rows))), done: make(chan struct{})}
	term.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8"}
	term.cmd.Dir = t.TempDir()
	f := testkit.Must(pty.StartWithSize(term.cmd, &pty.Winsize{Rows: rows, Cols: cols}))(t)
	term.File = f
	go func() {
		defer close(term.done)
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			_, _ = term.screen.Write(buf[:n]) // never fails
			if err != nil {                   // the process has ended
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

// press types, and waits until something is shown.
func (term *terminal) press(t *testing.T, keys, want string) {
	t.Helper()
	testkit.Must(term.WriteString(keys))(t)
	term.await(t, want)
}

func (term *terminal) await(t *testing.T, want string) {
	t.Helper()
	term.until(t, "shown", want, true)
}

func (term *terminal) awaitGone(t *testing.T, unwanted string) {
	t.Helper()
	term.until(t, "gone", unwanted, false)
}

func (term *terminal) until(t *testing.T, what, text string, there bool) {
	t.Helper()
	processtest.Until(t, func() error {
		if shown := term.screen.String(); strings.Contains(shown, text) != there {
			return fmt.Errorf("%q is not %s; this is:\n%s", text, what, shown)
		}
		return nil
	})
}

func (term *terminal) resize(t *testing.T, rows, cols uint16) {
	t.Helper()
	term.screen.Resize(int(cols), int(rows))
	testkit.OK(t, pty.Setsize(term.File, &pty.Winsize{Rows: rows, Cols: cols}))
}

// In a terminal, in front of a real gateway under load: it draws, obeys, survives the gateway,
// and leaves the terminal as it was.
func TestTop_Terminal(t *testing.T) {
	t.Parallel()
	admin := fmt.Sprint("127.0.0.1:", testkit.Port(t)) // it comes back on the same one
	serve := func() *processtest.Process {
		return processtest.Command{Args: []string{"serve", "--traffic", "--listen", "127.0.0.1:0", "--admin-listen", admin}}.Serve(t)
	}
	p := serve()

	term := openTerminal(t, 24, 80, "top", "--admin", admin)
	term.await(t, "MINUTE")
	term.press(t, "\t", "ENTITLED")
	term.press(t, "/ent", "filter: ent_")
	term.press(t, "\r\r", "> tenant enterprise")
	term.press(t, "?", "DEBT      tokens that it received before its turn")
	term.press(t, "x", "esc back")
	term.resize(t, 40, 150)
	term.await(t, "p pause") // there is room for it now

	p.Kill()
	term.await(t, "asking every second: no gateway answers (")
	serve()
	term.awaitGone(t, "asking every second")

	testkit.Must(term.WriteString("q"))(t)
	<-term.done
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if all := term.written(); !strings.Contains(all, "\x1b[?1049h") || !strings.Contains(all[len(all)-200:], "\x1b[?1049l") {
		t.Errorf("the terminal is not left as it was: %q", all[len(all)-200:])
	}
}
