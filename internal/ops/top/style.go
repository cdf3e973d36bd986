package top

import "charm.land/lipgloss/v2"

// tone is the emphasis of a text. It adds no information to the text.
type tone int

const (
	plain  tone = iota
	strong      // titles, and the current view
	faint       // for reference
	bar         // the filled part of a bar
	warn        // a warning
	bad         // an alarm
	chosen      // the selected row
	tones
)

// styles are the tones in a terminal, of the sixteen colours that every one has and its owner
// chooses. The library leaves colours out if the terminal has none.
type styles [tones]lipgloss.Style

func newStyles() *styles {
	s := lipgloss.NewStyle
	return &styles{
		plain: s(), strong: s().Bold(true), faint: s().Faint(true), bar: s().Foreground(lipgloss.Cyan),
		warn: s().Foreground(lipgloss.Yellow), bad: s().Foreground(lipgloss.Red).Bold(true), chosen: s().Reverse(true),
	}
}

// paint gives a text a tone. Without styles it returns the text.
func (s *styles) paint(t tone, text string) string {
	if s == nil || t == plain || text == "" {
		return text
	}
	return s[t].Render(text)
}

// when is the tone if a condition holds, else plain.
func when(so bool, t tone) tone {
	if so {
		return t
	}
	return plain
}

// pen draws lines: its width, characters and styles.
type pen struct {
	width  int
	glyphs Glyphs
	st     *styles // nil without colours
}

// gauge is a line with a label, a bar and words.
func (p *pen) gauge(what string, part float64, words string) string {
	const label = 16
	width := min(max(p.width-label-2-36, 8), maxBar)
	return fit(what, label, false, "") + " " + p.st.paint(bar, p.glyphs.bar(part, -1, width)) + " " + clean(words)
}
