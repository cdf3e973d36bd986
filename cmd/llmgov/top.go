package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/llmgov/llmgov/internal/ops/top"
)

type topCmd struct {
	asking
	Once bool `help:"Print the current state as plain text, and exit: for scripts and bug reports."`
}

func (topCmd) Help() string {
	return `Example: llmgov top --admin http://127.0.0.1:9090

Shows pools, tenants, leases and the gateways that share limits, every second; ? shows the keys. A gateway behind a
token is asked with admin.token of the config, or LLMGOV_ADMIN_TOKEN. NO_COLOR leaves the colours out.`
}

// onceWidth is the width of --once without a terminal.
const onceWidth = 120

func (c topCmd) Run(e *env) error {
	side, err := c.side(e)
	if err != nil {
		return err
	}
	opt := top.Options{Ask: side.read, Where: side.where, Glyphs: glyphs(e.vars), Now: time.Now}
	width, isTerminal := terminalWidth(e)
	if c.Once {
		if err := top.Once(e.ctx, opt, e.stdout, width); err != nil {
			return fmt.Errorf("llmgov: %w", err)
		}
		return nil
	}
	if !isTerminal || lookup(e.vars, "TERM") == "dumb" {
		return &usageError{"top needs a terminal that can place text; --once prints the current state instead"}
	}
	return top.Run(e.ctx, opt, e.stdout, e.vars)
}

// terminalWidth is the width of the output, and whether it is a terminal.
func terminalWidth(e *env) (int, bool) {
	f, ok := e.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return onceWidth, false
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width, true
	}
	return onceWidth, true
}

// glyphs are the characters that a terminal of this locale can show.
func glyphs(vars []string) top.Glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := lookup(vars, name); locale != "" {
			if l := strings.ToLower(locale); strings.Contains(l, "utf-8") || strings.Contains(l, "utf8") {
				return top.Unicode
			}
			return top.ASCII
		}
	}
	return top.ASCII
}
