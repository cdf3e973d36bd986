package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options are the gateway to show, and the characters of the terminal.
type Options struct {
	// Ask queries the gateway; Where is its address in the title.
	Ask   Ask
	Where string
	// Glyphs are the characters of bars.
	Glyphs Glyphs
	// Now is the clock.
	Now func() time.Time
}

// Model is the state of the picture. It implements tea.Model.
type Model struct {
	opt    Options
	ctx    context.Context
	styles *styles

	width, height int
	tabs          []*screen
	tab           int
	above         []*screen // opened with enter, the last one in front
	lines         int       // of the list, as drawn last

	data   *Data // nil until the gateway has answered
	lost   error // of the last poll, if it failed
	lostAt time.Time

	paused bool
	typing bool   // a filter
	before string // the previous filter
	help   bool
}

// New is a model without data.
func New(ctx context.Context, opt Options) *Model {
	return &Model{opt: opt, ctx: ctx, styles: newStyles(), width: 80, height: 24, tabs: newTabs(opt.Glyphs)}
}

func later() tea.Cmd { return tea.Tick(pause, func(time.Time) tea.Msg { return due{} }) }

// front is the visible screen.
func (m *Model) front() *screen {
	if n := len(m.above); n > 0 {
		return m.above[n-1]
	}
	return m.tabs[m.tab]
}

// entered gives the visible screen the data.
func (m *Model) entered() {
	if m.data != nil {
		m.front().load(m.data)
	}
}
