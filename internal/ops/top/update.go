package top

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// Init starts the first poll.
func (m *Model) Init() tea.Cmd { return m.poll() }

// Update handles sizes, keys, pasted text, and the results and times of polls.
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
		m.show(msg)
		return m, later()
	case due:
		if m.paused {
			return m, later()
		}
		return m, m.poll()
	}
	return m, nil
}

// poll queries the gateway. Each poll is followed by a pause, and each pause by a poll, so that
// there is one at a time.
func (m *Model) poll() tea.Cmd {
	ctx := m.ctx
	ask := m.opt.Ask
	w := m.front().wants
	now := m.opt.Now
	return func() tea.Msg {
		d, err := fetch(ctx, ask, w, now)
		return found{d, err, now()}
	}
}

// show shows the result of a poll, unless the picture was paused meanwhile.
func (m *Model) show(f found) {
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

// found is the result of a poll, and due the time of the next.
type (
	found struct {
		data *Data
		err  error
		at   time.Time
	}
	due struct{}
)
