package tokens

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Excerpt is some parts of the text of a JSON body, as they stand there, in quotes like one string. Files in base64 are no text.
type Excerpt []byte

const (
	excerptParts = 4
	partSize     = 128 // bytes, and those of the character at its end
)

// ExcerptOf takes an excerpt of a body from places that its sender cannot know, or all of a short one. Own is the body's size.
func ExcerptOf(body []byte, own Size) Excerpt {
	texts := []span{{0, len(body)}}
	if own[Image]+own[Sound]+own[Document] > 0 {
		texts = textsOf(body)
	}
	length := 0
	for _, text := range texts {
		length += text.end - text.start
	}
	out := append(make(Excerpt, 0, (excerptParts+1)*partSize), '"')
	if length <= excerptParts*partSize {
		out = appendTexts(out, body, texts, 0, length)
	} else {
		for i := range excerptParts {
			from := i * length / excerptParts
			from += rand.IntN((i+1)*length/excerptParts - from - partSize + 1)
			out = appendTexts(out, body, texts, from, from+partSize)
		}
	}
	return append(out, '"')
}

// appendTexts appends a part of some texts of a body, by indices as if these stood one behind the other.
func appendTexts(out Excerpt, body []byte, texts []span, from, to int) Excerpt {
	for _, at := range texts {
		text := body[at.start:at.end]
		if from < len(text) && to > 0 {
			out = appendPart(out, text, max(from, 0), min(to, len(text)))
		}
		from -= len(text)
		to -= len(text)
	}
	return out
}

// Weight is what the excerpt weighs.
func (x Excerpt) Weight() int64 { return Weigh(x[1 : len(x)-1]) }

// Said is what it says: escapes are the characters that they stand for.
func (x Excerpt) Said() []byte { return jsonscan.Unescape(nil, x) }

// appendPart appends about the part of a text from an index to another: all characters that begin there, or nothing if it is all backslashes.
func appendPart(out Excerpt, text []byte, from, to int) Excerpt {
	from, begins := beginning(text, from)
	to, ends := beginning(text, to)
	if begins && ends && from < to {
		out = append(out, text[from:to]...)
	}
	return out
}

// beginning is the first place from an index on at which a character of a JSON text surely begins, written as an escape or not, or the text ends.
func beginning(text []byte, i int) (at int, found bool) {
	for end := min(i+partSize, len(text)); i <= end; i++ {
		if begins(text, i) {
			return i, true
		}
	}
	return 0, false
}

// longestEscape is as long as \u4e2d.
const longestEscape = len(`\u0000`)

// begins reports whether it is sure that a character begins at an index, or ends with the text. A backslash begins an escape if no other is before it.
func begins(text []byte, i int) bool {
	before := text[max(0, i-longestEscape+1):i]
	switch {
	case i == 0:
		return true
	case text[i-1] == '\\':
		return false
	case i == len(text):
		return true
	case text[i] == '\\':
		return !isSecondHalf(text[i:])
	}
	return utf8.RuneStart(text[i]) && bytes.IndexByte(before, '\\') < 0
}

// isSecondHalf reports whether a text begins with the second escape of a surrogate pair.
func isSecondHalf(text []byte) bool {
	return len(text) >= longestEscape && text[1] == 'u' && text[2]|' ' == 'd' && (text[3]|' ' >= 'c' && text[3]|' ' <= 'f')
}

// textsOf are the parts of a body between its files.
func textsOf(body []byte) []span {
	var m Measurer
	m.measure(body)
	slices.SortFunc(m.apart, func(x, y span) int { return cmp.Compare(x.start, y.start) })
	at := 0
	for i, file := range m.apart {
		m.apart[i] = span{at, file.start}
		at = file.end
	}
	return append(m.apart, span{at, len(body)})
}
