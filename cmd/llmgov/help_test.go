package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The help of each command shows a real example of it.
func TestHelp_ShowsExamples(t *testing.T) {
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	err = kong.Visit(parser.Model.Node, func(n kong.Visitable, next kong.Next) error {
		if node, ok := n.(*kong.Node); ok && node.Type == kong.CommandNode {
			commands++
			path := strings.Fields(node.FullPath())[1:]
			var out, failures bytes.Buffer
			if code := run(context.Background(), append(path, "--help"), nil, &out, &failures); code != exitOK {
				t.Errorf("%v --help: exit code %d, %s", path, code, &failures)
			}
			if want := "\nExample: llmgov " + strings.Join(path, " "); !strings.Contains(out.String(), want) {
				t.Errorf("no line %q in\n%s", want[1:], &out)
			}
		}
		return next(nil)
	})
	if err != nil || commands < 20 {
		t.Errorf("%d commands, %v", commands, err)
	}
}

func TestVersionOf(t *testing.T) {
	built := func(main string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "722be9bd05b680db6654282fb2431024798d5fe8"}
	at := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-21T22:29:34Z"}
	clean := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, c := range map[string]struct {
		linked          string
		info            *debug.BuildInfo
		version, commit string
	}{
		"a release":           {"v1.2.3", built("(devel)"), "v1.2.3", ""},
		"a release of a tree": {"v1.2.3", built("v1.2.3+dirty", revision, at, changed), "v1.2.3", " (commit 722be9bd05b6 of 2026-11-21T22:29:34Z, with changes)"},
		"go build":            {"", built("v0.0.0-20261121222934-722be9bd05b6", revision, at, clean), "v0.0.0-20261121222934-722be9bd05b6", " (commit 722be9bd05b6 of 2026-11-21T22:29:34Z)"},
		"go install @v1.2.3":  {"", built("v1.2.3"), "v1.2.3", ""},
		"a shallow clone":     {"", built("(devel)", revision, clean), "(devel)", " (commit 722be9bd05b6)"},
		"no repository":       {"", built(""), "(devel)", ""},
		"no modules":          {"", nil, "(devel)", ""},
	} {
		if got := versionOf(c.linked, c.info); got != c.version {
			t.Errorf("%s: version %q, want %q", name, got, c.version)
		}
		if got := commitOf(c.info); got != c.commit {
			t.Errorf("%s: commit %q, want %q", name, got, c.commit)
		}
	}
}

func TestCompletions(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"llmgov ke", "keys"},
		{"llmgov keys ", "new list revoke hash"},
		{"llmgov keys n", "new"},
		{"llmgov completion ", "bash zsh fish"},
		{"llmgov completion z", "zsh"},
		{"llmgov check --eff", "--effective"},
		{"llmgov check -c ", ""}, // a file
		{"llmgov check --config ll", ""},
		{"llmgov load --retry ", "none hinted sdk"},
		{"llmgov nothing ", "serve check explain"},
	} {
		var out, failures bytes.Buffer
		if code := run(context.Background(), nil, []string{"COMP_LINE=" + c.line + " and more", "COMP_POINT=" + strconv.Itoa(len(c.line))}, &out, &failures); code != exitOK {
			t.Errorf("%q: exit code %d, %s", c.line, code, failures.String())
		}
		got := strings.Join(strings.Fields(out.String()), " ")
		if got != c.want && !(c.line == "llmgov nothing " && strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// Packages bring the scripts for the program that they install.
func TestCompletionFiles(t *testing.T) {
	for shell, file := range map[string]string{"bash": "llmgov.bash", "fish": "llmgov.fish"} {
		text, err := os.ReadFile("../../docs/deploy/completion/" + file)
		if want := fmt.Sprintf(completionScripts[shell], "/usr/bin/llmgov"); err != nil || string(text) != want {
			t.Errorf("%s: %v, %q, want %q", file, err, text, want)
		}
	}
}
