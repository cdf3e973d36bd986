package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Aligned writes rows as a table. The columns given are of numbers, and align on the right.
func Aligned(rows [][]string, numbers ...int) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(numbers, i) {
				cell = gap + cell
			} else {
				cell += gap
			}
			line.WriteString("  " + cell)
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// grouped writes the whole number that text begins with in groups of three digits: 20,000,000 tokens per day.
func grouped(text string) string {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	for i := digits - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// line is a place without its column.
func line(from string) string {
	if from == "" {
		return "default"
	}
	at := strings.LastIndexByte(from, ':')
	if at < 0 || strings.Trim(from[at+1:], "0123456789") != "" {
		return from // an override
	}
	return from[:at]
}
