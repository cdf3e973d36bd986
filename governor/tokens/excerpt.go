package tokens

import (
	"bytes"
	"math/rand/v2"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Excerpt is some parts of the text of a body, as they stand in JSON, in quotes like one string. Files in base64 are no text.
type Excerpt []byte

const (
	excerptParts = 4
	partSize     = 128 // bytes, and those of the character at its end
)

// ExcerptOf takes an excerpt of a JSON body from places that its sender cannot know, or all of a short one: of what is apart from some files.
func ExcerptOf(body []byte, files []Span) Excerpt {
	texts := [][]byte{body}
	for _, file := range files {
		last := len(texts) - 1
		at := len(body) - len(texts[last])
		texts[last] = body[at:file.Start]
		texts = append(texts, body[file.End:])
	}
	return excerpt(texts, appendPart)
}

// ExcerptOfTexts takes an excerpt of texts that are not in JSON, such as the fields of a form.
func ExcerptOfTexts(texts [][]byte) Excerpt { return excerpt(texts, appendPlain) }

// excerpt takes parts of some texts, or all of short ones, by a function that takes a part of one.
func excerpt(texts [][]byte, take func(out Excerpt, text []byte, from, to int) Excerpt) Excerpt {
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	out := append(make(Excerpt, 0, (excerptParts+1)*partSize), '"')
	add := func(from, to int) { // by indices as if the texts stood one behind the other
		for _, text := range texts {
			if from < len(text) && to > 0 {
				out = take(out, text, max(from, 0), min(to, len(text)))
			}
			from -= len(text)
			to -= len(text)
		}
	}
	if length <= excerptParts*partSize {
		add(0, length)
		return append(out, '"')
	}
	for i := range excerptParts {
		from := i * length / excerptParts
		from += rand.IntN((i+1)*length/excerptParts - from - partSize + 1)
		add(from, from+partSize)
	}
	return append(out, '"')
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

// appendPlain appends the characters of a text, not written in JSON, that begin from an index to another.
func appendPlain(out Excerpt, text []byte, from, to int) Excerpt {
	from = runeFrom(text, from)
	for _, b := range text[from:max(from, runeFrom(text, to))] {
		if b == '"' || b == '\\' {
			out = append(out, '\\')
		}
		out = append(out, b)
	}
	return out
}

// runeFrom is the first place from an index on at which a character begins, or the text ends. In what is no UTF-8 it is any place.
func runeFrom(text []byte, i int) int {
	for end := min(i+utf8.UTFMax, len(text)); i < end && !utf8.RuneStart(text[i]); {
		i++
	}
	return i
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
