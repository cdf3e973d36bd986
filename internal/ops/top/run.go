package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// Run shows the gateway in a terminal, until a key or the context ends it.
func Run(ctx context.Context, opt Options, terminal io.Writer, environ []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends a poll that is under way
	p := tea.NewProgram(New(ctx, opt), tea.WithContext(ctx), tea.WithOutput(terminal), tea.WithEnvironment(environ), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil && !errors.Is(err, tea.ErrProgramKilled) && ctx.Err() == nil {
		return fmt.Errorf("llmgov: the terminal cannot be used: %w", err)
	}
	return nil
}

// onceRows is the number of rows of a list in a frame that nobody can scroll.
const onceRows = 20

// Once polls once, and writes all views below each other, as plain text.
func Once(ctx context.Context, opt Options, w io.Writer, width int) error {
	d, err := fetch(ctx, opt.Ask, wants{shares: true, leases: true}, opt.Now)
	if err != nil {
		return err
	}
	m := New(ctx, opt)
	m.width = width
	m.styles = nil
	m.data = d
	lines := []string{m.headLine()}
	if text, _ := m.trouble(); text != "" {
		lines = append(lines, m.notice()...)
	}
	for i, s := range m.tabs {
		s.load(d)
		if i == len(m.tabs)-1 && !d.shared() {
			break
		}
		n, _, _ := s.sheet.len()
		lines = append(lines, "", s.title+m.counted(s.title))
		lines = append(lines, drawList(s, &pen{width, opt.Glyphs, nil}, 0, min(n, onceRows), -1)...)
		if n > onceRows {
			lines = append(lines, "  and "+whole(int64(n-onceRows))+" more")
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	_, err = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
