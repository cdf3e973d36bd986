package tokens

import (
	"bytes"
	"math/rand/v2"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Excerpt is some parts of the text of a body, as they stand in JSON, in quotes like one string. Files in base64 are no text, but for those that say some.
type Excerpt []byte

const (
	excerptParts = 4
	partSize     = 128 // bytes, and those of the character at its end
)

// written is a text, and how a part of it is added to an excerpt.
type written struct {
	text []byte
	take func(out Excerpt, text []byte, from, to int) Excerpt
}

// ExcerptOf takes an excerpt of a JSON body from places that its sender cannot know, or all of a short one: of what is apart from some files, and of what
// those say that are text.
func ExcerptOf(body []byte, files []Span) Excerpt {
	var texts []written
	at := 0
	for _, file := range files {
		texts = append(texts, written{body[at:file.Start], appendPart})
		if file.Said > 0 {
			texts = append(texts, written{file.digits(body), appendCoded})
		}
		at = file.End
	}
	return excerpt(append(texts, written{body[at:], appendPart}))
}

// ExcerptOfTexts takes an excerpt of texts that are not in JSON, such as the fields of a form.
func ExcerptOfTexts(texts [][]byte) Excerpt {
	list := make([]written, len(texts))
	for i, text := range texts {
		list[i] = written{text, appendPlain}
	}
	return excerpt(list)
}

// excerpt takes parts of some texts, or all of short ones.
func excerpt(texts []written) Excerpt {
	length := 0
	for _, t := range texts {
		length += len(t.text)
	}
	out := append(make(Excerpt, 0, (excerptParts+1)*partSize), '"')
	add := func(from, to int) { // by indices as if the texts stood one behind the other
		for _, t := range texts {
			if from < len(t.text) && to > 0 {
				out = t.take(out, t.text, max(from, 0), min(to, len(t.text)))
			}
			from -= len(t.text)
			to -= len(t.text)
		}
	}
	samples(length, excerptParts, partSize, add)
	return append(out, '"')
}

// samples takes so many samples of something of a length, each of a size, from places that nobody knows before, or all of what is short.
func samples(length, n, size int, take func(from, to int)) {
	if length <= n*size {
		take(0, length)
		return
	}
	for i := range n {
		from := i * length / n
		from += rand.IntN((i+1)*length/n - from - size + 1)
		take(from, from+size)
	}
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

// appendCoded appends about what the base64 from an index to another says.
func appendCoded(out Excerpt, digits []byte, from, to int) Excerpt {
	said := appendDecoded(nil, digits, from, to)
	return appendPlain(out, said, 0, len(said))
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
