package top

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// press handles a key.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case k.String() == "ctrl+z":
		return tea.Suspend
	case m.help: // any key closes it
		m.help = false
		return nil
	case m.typing:
		m.typeFilter(k)
		return nil
	}
	switch s := m.front(); k.String() {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "p":
		m.paused = !m.paused && m.data != nil
	case "tab", "l", "right":
		m.switchTab(1)
	case "shift+tab", "h", "left":
		m.switchTab(-1)
	case "enter":
		m.openSelected()
	case "esc", "backspace":
		m.back()
	case "/":
		m.typing = true
		m.before = s.filter
	case "s":
		s.reorder()
	default:
		m.move(s, k.String())
	}
	return nil
}

// move selects another row of a list.
func (m *Model) move(s *screen, key string) {
	n, _, _ := s.sheet.len()
	steps := map[string]int{
		"j": 1, "down": 1, "k": -1, "up": -1, "g": -n, "home": -n, "G": n, "end": n,
		"pgdown": m.lines, "space": m.lines, "ctrl+d": m.lines / 2, "pgup": -m.lines, "ctrl+u": -m.lines / 2,
	}
	if by, ok := steps[key]; ok {
		s.moveTo(s.cursor + by)
	}
}

// switchTab goes to another view, and closes opened rows.
func (m *Model) switchTab(by int) {
	m.above = nil
	m.tab = (m.tab + by + len(m.tabs)) % len(m.tabs)
	m.entered()
}

// openSelected opens the selected row.
func (m *Model) openSelected() {
	s := m.front()
	if n, _, _ := s.sheet.len(); n == 0 {
		return
	}
	if next := s.sheet.closer(s.cursor); next != nil {
		m.above = append(m.above, next)
		m.entered()
	}
}

// back removes the filter, or closes the opened row if there is none.
func (m *Model) back() {
	if s := m.front(); s.filter != "" {
		s.refilter("")
		return
	}
	if n := len(m.above); n > 0 {
		m.above = m.above[:n-1]
		m.entered()
	}
}

// typeFilter handles a key while the filter is being typed.
func (m *Model) typeFilter(k tea.KeyPressMsg) {
	s := m.front()
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		s.refilter(m.before)
	case "backspace":
		if s.filter == "" {
			m.typing = false
			return
		}
		_, size := utf8.DecodeLastRuneInString(s.filter)
		s.refilter(s.filter[:len(s.filter)-size])
	case "ctrl+u":
		s.refilter("")
	default:
		if k.Text != "" {
			s.refilter(s.filter + clean(k.Text))
		}
	}
}
