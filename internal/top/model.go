package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options say what is shown, and how.
type Options struct {
	// Ask reaches the gateway, which is at Where for those who read it.
	Ask   Ask
	Where string
	// Glyphs are what bars are drawn with.
	Glyphs Glyphs
	// Now is the clock.
	Now func() time.Time
}

// Model is what is seen, and what keys do to it. It implements tea.Model.
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
	lost   error // why it did not answer last
	lostAt time.Time

	paused bool
	typing bool   // a filter
	before string // the filter before that
	help   bool
}

// New is a model before it has seen anything.
func New(ctx context.Context, opt Options) *Model {
	return &Model{opt: opt, ctx: ctx, styles: newStyles(), width: 80, height: 24, tabs: newTabs(opt.Glyphs)}
}

// found is the end of a look at the gateway, and due the time for the next.
type (
	found struct {
		data *Data
		err  error
		at   time.Time
	}
	due struct{}
)

// Init begins to look.
func (m *Model) Init() tea.Cmd { return m.look() }

// Update takes in what has happened.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width = msg.Width
		m.height = msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			m.front().refilter(m.front().filter + clean(msg.Content))
		}
	case found:
		m.take(msg)
		return m, later()
	case due:
		if m.paused {
			return m, later()
		}
		return m, m.look()
	}
	return m, nil
}

// look asks the gateway. Each look is followed by a pause, and each pause by a look, so there
// is one at a time.
func (m *Model) look() tea.Cmd {
	ctx := m.ctx
	ask := m.opt.Ask
	w := m.front().wants
	now := m.opt.Now
	return func() tea.Msg {
		d, err := fetch(ctx, ask, w, now)
		return found{d, err, now()}
	}
}

func later() tea.Cmd { return tea.Tick(pause, func(time.Time) tea.Msg { return due{} }) }

// take shows what was found. What came too late for a picture that is held is not.
func (m *Model) take(f found) {
	switch {
	case m.paused:
	case f.err != nil:
		m.lost = f.err
		m.lostAt = f.at
	default:
		m.data = f.data
		m.lost = nil
		m.front().load(m.data)
	}
}

// front is the screen that is seen.
func (m *Model) front() *screen {
	if n := len(m.above); n > 0 {
		return m.above[n-1]
	}
	return m.tabs[m.tab]
}

// entered gives the screen in front what is known.
func (m *Model) entered() {
	if m.data != nil {
		m.front().load(m.data)
	}
}

// View is the frame, for the terminal.
func (m *Model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	v.WindowTitle = "llmgov top"
	return v
}
