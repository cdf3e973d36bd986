package top

import "charm.land/lipgloss/v2"

// tone is what a text is like. None says anything that the text does not say itself.
type tone int

const (
	plain  tone = iota
	strong      // titles, and where one is
	faint       // what is there to be looked up
	bar         // the filled part of what there is
	warn        // worth a look
	bad         // worth a look now
	chosen      // the selected row
	tones
)

// styles are the tones in a terminal, of the sixteen colours that every one has: which they
// are is up to its owner. Where there are no colours the library leaves them out.
type styles [tones]lipgloss.Style

func newStyles() *styles {
	s := lipgloss.NewStyle
	return &styles{
		plain: s(), strong: s().Bold(true), faint: s().Faint(true), bar: s().Foreground(lipgloss.Cyan),
		warn: s().Foreground(lipgloss.Yellow), bad: s().Foreground(lipgloss.Red).Bold(true), chosen: s().Reverse(true),
	}
}

// paint gives a text a tone. Without styles it is left as it is.
func (s *styles) paint(t tone, text string) string {
	if s == nil || t == plain || text == "" {
		return text
	}
	return s[t].Render(text)
}

// when is a tone if something is so.
func when(so bool, t tone) tone {
	if so {
		return t
	}
	return plain
}
