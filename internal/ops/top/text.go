package top

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// short is a count in at most four characters: 980, 1.2k, 213k, 1.2M.
func short(n int64) string {
	f := float64(n)
	sign := ""
	if f < 0 {
		f = -f
		sign = "-"
	}
	unit := ""
	for _, u := range []string{"", "k", "M", "B", "T", "P", "E"} {
		unit = u
		if f < 999.5 {
			break
		}
		f /= 1000
	}
	if unit == "" || f >= 9.95 {
		return sign + strconv.FormatFloat(math.Round(f), 'f', 0, 64) + unit
	}
	return sign + strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + unit
}

// whole is a count with all its digits.
func whole(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent is a part of 1, in at most five characters.
func percent(part float64) string {
	p := 100 * part
	switch a := math.Abs(p); {
	case a == 0:
		return "0%"
	case a >= 9.95:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	case a >= 0.095:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	case a < 0.005:
		return "<.01%"
	}
	return strconv.FormatFloat(p, 'f', 2, 64) + "%"
}

// span is a time in at most five characters; "-" is none.
func span(seconds float64) string {
	switch {
	case seconds <= 0:
		return "-"
	case seconds < 9.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "s"
	case seconds < 99.5:
		return strconv.FormatFloat(seconds, 'f', 0, 64) + "s"
	case seconds < 100*60:
		return strconv.Itoa(int(seconds/60)) + "m"
	case seconds < 100*3600:
		return strconv.Itoa(int(seconds/3600)) + "h"
	}
	return strconv.Itoa(int(seconds/86400)) + "d"
}

// ago is the time from t to at.
func ago(t, at time.Time) string { return max(at.Sub(t), 0).Round(time.Second).String() }

// clean removes control characters from foreign texts, because a terminal would obey them.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, s)
}

// fit makes a text exactly so wide, and marks a cut.
func fit(s string, width int, right bool, cut string) string {
	if width <= 0 {
		return ""
	}
	n := ansi.StringWidth(s)
	if n > width {
		s = ansi.Truncate(s, width, cut)
		n = ansi.StringWidth(s)
	}
	space := strings.Repeat(" ", width-n)
	if right {
		return space + s
	}
	return s + space
}

// Glyphs are the characters of bars.
type Glyphs struct{ full, empty, mark, cut string }

// Unicode is for terminals that can show it, and ASCII for all others.
var (
	Unicode = Glyphs{"█", "·", "│", "…"}
	ASCII   = Glyphs{"#", ".", "|", "~"}
)

// bar draws a part of 1, and a mark at another, if that is not negative.
func (g Glyphs) bar(part, mark float64, width int) string {
	if width <= 0 {
		return ""
	}
	full := cells(part, width)
	at := -1
	if mark >= 0 {
		at = max(cells(mark, width)-1, 0)
	}
	var b strings.Builder
	for i := range width {
		switch {
		case i == at:
			b.WriteString(g.mark)
		case i < full:
			b.WriteString(g.full)
		default:
			b.WriteString(g.empty)
		}
	}
	return b.String()
}

// cells is the number of a bar's cells that a part of 1 fills: at least one if it is not 0.
func cells(part float64, width int) int {
	if !(part > 0) {
		return 0
	}
	return min(max(int(math.Round(part*float64(width))), 1), width)
}
