package top

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	tea "charm.land/bubbletea/v2"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Frames, as they are in testdata. UPDATE_FRAMES=1 writes them anew, to be read as a diff.
func TestFrames(t *testing.T) {
	refused := errors.New("no gateway answers at http://127.0.0.1:9090 (connect: connection refused)")
	for name, tc := range map[string]struct {
		width, height int
		keys          []string
		then          func(*bench)
	}{
		"pools":        {80, 24, nil, nil},
		"tenants":      {80, 24, []string{"tab"}, nil},
		"leases":       {80, 24, []string{"tab", "tab"}, nil},
		"nodes":        {80, 24, []string{"tab", "tab", "tab"}, nil},
		"pool":         {80, 24, []string{"enter"}, nil},
		"pool-small":   {80, 12, []string{"enter"}, nil},
		"tenant":       {80, 24, []string{"tab", "down", "up", "enter"}, nil},
		"help":         {80, 24, []string{"?"}, nil},
		"filter":       {80, 24, []string{"tab", "/", "S", "e", "a"}, nil},
		"filter-none":  {80, 24, []string{"tab", "/", "x", "enter"}, nil},
		"paused":       {80, 24, []string{"p"}, func(b *bench) { b.second() }},
		"away":         {80, 24, nil, func(b *bench) { b.down = refused; b.second(); b.second() }},
		"bad-files":    {80, 24, nil, func(b *bench) { b.Conditions = []adminapi.Condition{badFiles}; b.second() }},
		"outage":       {80, 24, nil, func(b *bench) { b.Conditions = []adminapi.Condition{outage(b.now), badFiles}; b.second() }},
		"tiny":         {30, 8, []string{"tab"}, nil},
		"pools-wide":   {120, 40, nil, nil},
		"tenants-wide": {120, 40, []string{"tab"}, nil},
		"pool-widest":  {200, 60, []string{"enter"}, nil},
		"servers":      {80, 24, nil, func(b *bench) { b.withServers(); b.second() }},
		"pool-servers": {80, 24, []string{"enter"}, func(b *bench) { b.withServers(); b.second() }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(sample(), tc.width, tc.height)
			b.second()
			b.keys(tc.keys...)
			if tc.then != nil {
				tc.then(b)
			}
			compare(t, name, b.picture(t))
		})
	}
}

var badFiles = adminapi.Condition{
	Kind: adminapi.PolicyInvalid, Severity: adminapi.Error,
	Message: `tenants/acme.yaml:2:21: unknown key "tmp"; did you mean "tpm"? The previous policy stays in force.`,
}

func outage(now time.Time) adminapi.Condition {
	since := now.Add(-time.Hour)
	return adminapi.Condition{Kind: adminapi.UpstreamDown, Severity: adminapi.Error, Since: &since, Message: "Upstream openai of pool gpt-4o is down."}
}

// What --once prints.
func TestOnce(t *testing.T) {
	s := sample()
	var out bytes.Buffer
	b := newBench(s, 0, 0)
	testkit.OK(t, Once(t.Context(), b.opt, &out, 120))
	compare(t, "once", out.String())
	s.down = errors.New("gone")
	if err := Once(t.Context(), b.opt, &out, 120); !errors.Is(err, s.down) {
		t.Errorf("the gateway is gone: %v", err)
	}
}

// The frames that docs/operations.md shows are those of testdata, but for empty lines.
func TestOperationsDoc(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../docs/operations.md"))(t)
	many := regexp.MustCompile(`\n{3,}`)
	for _, name := range []string{"tenants", "pool"} {
		frame := testkit.Must(os.ReadFile(filepath.Join("testdata", name+".txt")))(t)
		if want := "```\n" + many.ReplaceAllString(string(frame), "\n\n") + "```\n"; !strings.Contains(string(doc), want) {
			t.Errorf("it does not show testdata/%s.txt as it is:\n%s", name, want)
		}
	}
}

// compare ignores spaces at the ends of lines, which editors take away.
func compare(t *testing.T, name, got string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	got = strings.Join(lines, "\n") + "\n"
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_FRAMES") != "" {
		testkit.OK(t, os.WriteFile(file, []byte(got), 0o666))
	}
	want := testkit.Must(os.ReadFile(file))(t)
	testkit.Same(t, strings.Split(string(want), "\n"), strings.Split(got, "\n"), file, "is not as it was")
}

// Whatever the size, the keys and the names: a frame has exactly the lines that the terminal
// has, none too long, and no escape code but those of this package.
func TestFrame_FitsAnyTerminal(t *testing.T) {
	all := []string{"tab", "h", "enter", "esc", "down", "up", "backspace", "pgdown", "g", "G", "/", "a", "s", "p", "?", "ü", "space"}
	rapid.Check(t, func(t *rapid.T) {
		s := sample()
		name := rapid.String().Draw(t, "name") + "\x1b[2J\r\n"
		s.Node = name
		s.Pools[0].Name = name
		s.Pools[1].Fairness.Tenants[0].Name = name
		s.leases[0].Tenant = name
		b := newBench(s, 80, 24)
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				b.Update(tea.WindowSizeMsg{Width: rapid.IntRange(1, 250).Draw(t, "width"), Height: rapid.IntRange(1, 70).Draw(t, "height")})
			case 1:
				s.down = nil
				if rapid.Bool().Draw(t, "down") {
					s.down = errors.New("\x1b]0;gone\a " + name)
				}
				b.second()
			default:
				b.keys(rapid.SampledFrom(all).Draw(t, "key"))
			}
			checkFits(t, b)
		}
	})
}

func checkFits(t *rapid.T, b *bench) {
	frame := b.frame()
	lines := strings.Split(frame, "\n")
	if len(lines) != b.height {
		t.Fatalf("%d lines in a terminal of %d:\n%s", len(lines), b.height, frame)
	}
	for _, line := range lines {
		if n := ansi.StringWidth(line); n > b.width {
			t.Fatalf("%d wide in a terminal of %d: %q", n, b.width, line)
		}
		if strings.ContainsAny(ansi.Strip(line), "\r\a\x1b") || strings.Contains(line, "\x1b[2J") || strings.Contains(line, "\x1b]") {
			t.Fatalf("a name draws: %q", line)
		}
	}
}
