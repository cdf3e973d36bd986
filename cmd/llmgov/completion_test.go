package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

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
