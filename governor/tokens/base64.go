package tokens

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

// A long file is known by so many samples of so many digits.
const (
	fileSamples = 16
	sampleSize  = 512
)

// textOf is the size of the text that a file in base64 is. A file is text if it is declared as such, or is no PDF and has hardly anything but characters.
func (m *Measurer) textOf(file Span, declared bool) (s Size, isText bool) {
	digits := file.digits(m.body)
	m.scratch = appendDecoded(m.scratch[:0], digits, 0, min(len(digits), sampleSize))
	pdf := bytes.HasPrefix(m.scratch, []byte("%PDF"))
	m.scratch = m.scratch[:0]
	samples(len(digits), fileSamples, sampleSize, func(from, to int) { m.scratch = appendDecoded(m.scratch, digits, from, to) })
	isText = declared || !pdf && readable(m.scratch)
	if !isText || len(m.scratch) == 0 {
		return s, false
	}
	s = SizeOf(m.scratch)
	if len(digits) > fileSamples*sampleSize {
		said := digitsIn(digits) / 4 * 3
		for k := range s {
			s[k] = s[k] * int64(said) / int64(len(m.scratch))
		}
	}
	return s, true
}

// digits are the base64 of a file of a body.
func (s Span) digits(body []byte) []byte {
	text := body[s.Start+1 : s.End-1]
	if data := dataOf(text); data != nil {
		return data
	}
	return text
}

// readable reports whether at most an eighth of some bytes is not UTF-8, or is control characters.
func readable(text []byte) bool {
	strange := 0
	for rest := text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || r < ' ' && !bytes.ContainsRune([]byte("\t\n\f\r"), r) {
			strange++
		}
		rest = rest[n:]
	}
	return strange <= len(text)/8
}

const (
	escape  = '\\' // may stand before a slash
	padding = '='  // says nothing, and some decoders pass over it anywhere
)

// digitsIn is how many digits base64 has.
func digitsIn(text []byte) int {
	return len(text) - bytes.Count(text, []byte{escape}) - bytes.Count(text, []byte{padding})
}

// appendDecoded appends about what the base64 from an index to another says: from the next group of digits on.
func appendDecoded(out, digits []byte, from, to int) []byte {
	at := digitsIn(digits[:from])
	var room [fileSamples * sampleSize]byte
	part := room[:0]
	for _, b := range digits[from:to] {
		if b == escape || b == padding {
			continue
		}
		if at%4 == 0 || len(part) > 0 {
			part = append(part, b)
		}
		at++
	}
	n := len(out)
	out = append(out, part...) // room for it
	decoded, _ := base64.RawStdEncoding.Decode(out[n:], part)
	return out[:n+decoded]
}
