package jsonscan

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Unescape appends what a string says to out. raw is a Key or String with its quotes. Half a surrogate
// pair becomes U+FFFD, as with encoding/json.
func Unescape(out, raw []byte) []byte {
	text := raw[1 : len(raw)-1]
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		c := text[i+1]
		if c != 'u' {
			out = append(out, escapes[c])
			i += 2
			continue
		}
		r := hexRune(text[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			whole := utf16.DecodeRune(r, hexRune(text[i:]))
			if whole != utf8.RuneError {
				i += 6
			}
			r = whole
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexRune is the rune of the escape \uXXXX that text begins with, or U+FFFD if it begins otherwise.
func hexRune(text []byte) (r rune) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return utf8.RuneError
	}
	for _, c := range text[2:6] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		case c >= 'a':
			r |= rune(c - 'a' + 10)
		default:
			r |= rune(c - 'A' + 10)
		}
	}
	return r
}

// AppendLower appends a text in lower case, as a server that ignores case may read it.
func AppendLower(out, text []byte) []byte {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if r == 'ſ' { // which is an s in upper case; the Kelvin sign is a k in lower case already
			r = 's'
		}
		out = utf8.AppendRune(out, unicode.ToLower(r))
	}
	return out
}
