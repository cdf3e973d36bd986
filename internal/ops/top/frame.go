package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// frame is the whole picture: as many lines as the terminal has, none longer than it is wide.
//
//	address, gateway, time
//	the views, or the row that was opened
//	the most important notice, if any
//	the lines above the list
//	the list
//	keys, and the position in the list
func (m *Model) frame() string {
	lines := append([]string{m.headLine(), m.tabLine()}, m.notice()...)
	if m.help {
		lines = append(lines, helpLines()...)
	} else if m.data != nil {
		lines = append(lines, m.body(&pen{m.width, m.opt.Glyphs, m.styles}, m.height-len(lines)-1)...)
	}
	return m.cut(lines)
}

// body are the lines above the list, and the list.
func (m *Model) body(p *pen, room int) []string {
	s := m.front()
	var lines []string
	if s.above != nil {
		lines = append(lines, s.above(m.data, p)...)
		const least = 4 // lines of the list
		if most := max(room-least, 1); len(lines) > most {
			lines = append(lines[:most-1], p.st.paint(faint, "Enlarge the window to see more."))
		}
		if len(lines) > 0 {
			lines = append(lines, "")
		}
	}
	m.lines = max(room-len(lines)-1, 0)
	from, to := s.scroll(m.lines)
	return append(lines, drawList(s, p, from, to, s.cursor)...)
}

// drawList draws the head of a list and some of its rows. No row is selected with -1.
func drawList(s *screen, p *pen, from, to, selected int) []string {
	if n, known, _ := s.sheet.len(); n == 0 {
		return []string{p.st.paint(faint, "  "+nothing(s, known))}
	}
	layout := s.sheet.layout(p.width)
	lines := []string{p.st.paint(faint, layout.head())}
	for i := from; i < to; i++ {
		line := layout.line(i, i == selected, p.st)
		if i == selected {
			line = p.st.paint(chosen, fit(line, p.width, false, ""))
		}
		lines = append(lines, line)
	}
	return lines
}

// nothing is the text of an empty list.
func nothing(s *screen, known int) string {
	switch what := s.sheet.kind(); {
	case known > 0:
		return fmt.Sprintf("None of %s %s matches %q.", whole(int64(known)), what, s.filter)
	case what == "nodes":
		return "Single gateway. Set store: to share limits between several."
	default:
		return "There are no " + what + " now."
	}
}

func (m *Model) headLine() string {
	line := m.styles.paint(strong, "llmgov top") + "  " + clean(m.opt.Where)
	if d := m.data; d != nil {
		line += clean(fmt.Sprintf("  %s (%s)  policy %.8s", d.Node, d.Region, d.PolicyHash))
		at := d.At.Format("15:04:05")
		line = fit(line, m.width-len(at)-1, false, m.opt.Glyphs.cut) + " " + at
	}
	return line
}

func (m *Model) tabLine() string {
	var parts []string
	for i, s := range m.tabs {
		text := " " + s.title + m.counted(s.title) + " "
		if i == m.tab {
			text = m.styles.paint(strong, "["+text[1:len(text)-1]+"]")
		}
		parts = append(parts, text)
	}
	line := strings.Join(parts, " ")
	for _, s := range m.above {
		line += " > " + m.styles.paint(strong, clean(s.title))
	}
	return line
}

// counted is the number of rows of a view.
func (m *Model) counted(title string) string {
	d := m.data
	if d == nil {
		return ""
	}
	n := 0
	switch title {
	case "Pools":
		n = len(d.Pools)
	case "Tenants":
		n = d.Tenants
	case "Leases":
		n = d.LeasesTotal
	case "Nodes":
		n = d.nodes()
		if n == 0 {
			return ""
		}
	}
	return " " + whole(int64(n))
}

// nodes is the number of gateways that share a pool with this one.
func (d *Data) nodes() int {
	names := map[string]bool{}
	for _, n := range nodeRows(d) {
		names[n.Name] = true
	}
	return len(names)
}

// notice is the most important notice about the picture, or an empty line.
func (m *Model) notice() []string {
	text, t := m.trouble()
	lines := strings.Split(ansi.Wrap(clean(text), max(m.width, 1), ""), "\n")
	for i := range lines {
		lines[i] = m.styles.paint(t, lines[i])
	}
	return lines
}

// trouble is the worst problem.
func (m *Model) trouble() (string, tone) {
	d := m.data
	switch {
	case m.lost != nil && d == nil:
		return "Asking every second: " + m.reason(), bad
	case m.lost != nil:
		return "Gone for " + ago(d.At, m.lostAt) + ", asking every second: " + m.reason(), bad
	case d == nil:
		return "Asking " + m.opt.Where, plain
	case m.paused:
		return "Paused. State of " + d.At.Format("15:04:05") + "; p resumes.", warn
	case len(d.Conditions) > 0:
		return conditionLine(d)
	}
	return "", plain
}

// conditionLine is the worst condition, and the number of others.
func conditionLine(d *Data) (string, tone) {
	first := d.Conditions[0]
	text := first.Message
	if first.Since != nil {
		text = "Since " + first.Since.In(d.At.Location()).Format("15:04") + ": " + text
	}
	if more := len(d.Conditions) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	if first.Severity == adminapi.Error {
		return text, bad
	}
	return text, warn
}

// reason is the reason why the gateway did not answer, without its address, which is in the title.
func (m *Model) reason() string {
	return strings.Replace(m.lost.Error(), " at "+m.opt.Where, "", 1)
}

// footer are the keys, or the filter that is being typed, and the position in the list.
func (m *Model) footer() string {
	s := m.front()
	where := m.position()
	room := m.width - ansi.StringWidth(where) - 2
	text := ""
	switch {
	case m.help:
		text = "Any key goes back."
		room = m.width
		where = ""
	case m.typing:
		text = "filter: " + s.filter + "_  enter keeps it, esc drops it"
	case s.filter != "":
		text = "filter: " + s.filter + "  esc removes it"
	default:
		text = m.keys(room)
	}
	return m.styles.paint(faint, strings.TrimRight(fit(text, room, false, m.opt.Glyphs.cut)+"  "+where, " "))
}

// position is the order of the list, and the position in it.
func (m *Model) position() string {
	s := m.front()
	order := s.sheet.orderNames()[s.order]
	if order != asConfigured {
		order = "by " + order
	}
	seen, known, total := s.sheet.len()
	if seen > 0 {
		order += fmt.Sprintf("  %s/%s", whole(int64(s.cursor+1)), whole(int64(seen)))
	}
	if total > known {
		order += " of " + whole(int64(total))
	}
	return order
}

// keys are the most important keys that fit.
func (m *Model) keys(room int) string {
	all := []string{"q quit", "? help", "tab view", "enter open", "/ filter", "s sort", "p pause"}
	if len(m.above) > 0 {
		all = append([]string{"esc back"}, all...)
	}
	line := all[0]
	for _, k := range all[1:] {
		if ansi.StringWidth(line)+2+len(k) > room {
			break
		}
		line += "  " + k
	}
	return line
}

// cut cuts or fills lines to the height of the terminal, with the footer as the last.
func (m *Model) cut(lines []string) string {
	height := max(m.height, 1)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:height-1], m.footer())
	for i, line := range lines {
		if ansi.StringWidth(line) > m.width {
			lines[i] = ansi.Truncate(line, m.width, m.opt.Glyphs.cut)
		}
	}
	return strings.Join(lines, "\n")
}

// View is the frame, for the terminal.
func (m *Model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	v.WindowTitle = "llmgov top"
	return v
}
