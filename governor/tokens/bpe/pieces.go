package bpe

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// pieceSize is the longest text that is counted at once. Merging takes up to the square of
// what has no gap in it.
const pieceSize = 512

// pieces cuts a text, where it can before a space, for tokens begin there. A cut inside of
// a word costs a token or so.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > pieceSize {
			at := strings.LastIndexByte(text[:pieceSize], ' ')
			if at < pieceSize/2 {
				for at = pieceSize; at > pieceSize-utf8.UTFMax && !utf8.RuneStart(text[at]); at-- {
				}
			}
			if !yield(text[:at]) {
				return
			}
			text = text[at:]
		}
		if text != "" {
			yield(text)
		}
	}
}
