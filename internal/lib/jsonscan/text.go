package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// text reads the string that begins at s.at.
func (s *Scanner) text(kind Kind) Token {
	b := s.body
	start := s.at
	escaped := false
	i := shortEnd(b, start+1)
	if i < len(b) && b[i] == '"' {
		return s.ends(kind, i, false)
	}
	for {
		end, passed := plainEnd(b, i)
		i = end
		escaped = escaped || passed
		if i == len(b) {
			return s.invalid()
		}
		switch c := b[i]; {
		case c == '"':
			return s.ends(kind, i, escaped)
		case c == '\\':
			escaped = true
			if i+1 < len(b) && isShortEscape[b[i+1]] {
				i += 2
				continue
			}
			if !isLongEscape(b[i:]) {
				return s.invalid()
			}
			i += longEscape
		case c >= 0x80:
			next := runesEnd(b, i)
			if next < 0 {
				return s.invalid()
			}
			i = next
		default: // a control character
			return s.invalid()
		}
	}
}

// ends passes the quote at the end of a string.
func (s *Scanner) ends(kind Kind, quote int, escaped bool) Token {
	t := Token{Kind: kind, Escaped: escaped, Start: s.at, End: quote + 1}
	s.at = t.End
	s.state = behindValue
	return t
}

// shortEnd is the index of the first byte from i on that is not plain, if it is near, or of one before it. Most strings
// are keys, or as short as these, and end there.
func shortEnd(b []byte, i int) int {
	if len(b)-i < block {
		return i
	}
	return i + min(block, bits.TrailingZeros64(marksOf((*[block]byte)(b[i:]))))
}

// plainEnd is the index of the first byte from i on at which a string may end, or that needs a closer look:
// a quote, a control character, a byte beyond ASCII, or a backslash that does not begin a short escape.
func plainEnd(b []byte, i int) (end int, escaped bool) {
	if !hasVectors || len(b)-i < vectorBlock {
		return plainEndByWords(b, i)
	}
	passed, escaped := plainBlocks(b[i:])
	i += passed
	if len(b)-i >= vectorBlock {
		return i, escaped
	}
	end, more := plainEndByWords(b, i)
	return end, escaped || more
}

// vectorBlock is how many bytes plainBlocks looks at together.
const vectorBlock = 64

// plainEndByWords is plainEnd on any processor.
func plainEndByWords(b []byte, i int) (end int, escaped bool) {
	for len(b)-i > block { // the byte behind it may belong to an escape at its end
		marks := marksOf((*[block]byte)(b[i:]))
		next := i + block
		for marks != 0 {
			n := bits.TrailingZeros64(marks)
			at := i + n
			if b[at] != '\\' || !isShortEscape[b[at+1]] {
				return at, escaped
			}
			escaped = true
			marks &^= 0b11 << n
			next = max(next, at+2)
		}
		i = next
	}
	for i < len(b) && isPlain[b[i]] {
		i++
	}
	return i, escaped
}

// block is how many bytes plainEndByWords looks at together. It goes on behind them wherever their escapes are, because
// no processor could predict that.
const block = 32

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// marksOf has a bit for each byte of a block, which is set if the byte is not plain.
func marksOf(text *[block]byte) uint64 {
	a := plain(binary.LittleEndian.Uint64(text[0:]))
	b := plain(binary.LittleEndian.Uint64(text[8:]))
	c := plain(binary.LittleEndian.Uint64(text[16:]))
	d := plain(binary.LittleEndian.Uint64(text[24:]))
	if a&b&c&d&tops == tops {
		return 0
	}
	return ^(topsOf(a) | topsOf(b)<<8 | topsOf(c)<<16 | topsOf(d)<<24) & (1<<block - 1)
}

// plain has the top bit set of each of eight bytes that stands for itself in a string.
//
// A byte whose top bit was set loses it by a subtraction of n if its other bits are less than n, and then borrows
// nothing from the next byte. b^2 is less than 0x21 for control characters (b^2 < 0x20) and for the quote
// (0x22^2 = 0x20), and b^'\\' is less than 1 for the backslash.
func plain(text uint64) uint64 {
	set := text | tops
	neitherQuoteNorControl := set ^ 2*ones - 0x21*ones
	noBackslash := set ^ '\\'*ones - ones
	return neitherQuoteNorControl & noBackslash &^ text
}

// topsOf are the top bits of eight bytes, one beside the other.
func topsOf(word uint64) uint64 {
	return word & tops >> 7 * 0x0102040810204080 >> 56
}

// isPlain are the bytes of a string that stand for themselves, one by one.
var isPlain = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= ' ' && c < 0x80 && c != '"' && c != '\\'
	}
	return is
}()

// isShortEscape are the bytes that mean something behind a backslash, all by themselves.
var isShortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// longEscape is the length of \uXXXX.
const longEscape = 6

// isLongEscape reports whether text begins with \uXXXX.
func isLongEscape(text []byte) bool {
	if len(text) < longEscape || text[1] != 'u' {
		return false
	}
	for _, c := range text[2:longEscape] {
		if !isHex[c] {
			return false
		}
	}
	return true
}

var isHex = func() (is [256]bool) {
	for _, c := range "0123456789abcdefABCDEF" {
		is[c] = true
	}
	return is
}()

// runesEnd is the index of the first ASCII byte from i on, or -1 if what stands before it is not UTF-8.
func runesEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= 0x80 {
		n := runeLength(b[i:])
		if n == 0 {
			return -1
		}
		i += n
	}
	return i
}

// runeLength is how many bytes the rune beyond ASCII has that text begins with; 0 if it is not UTF-8.
func runeLength(text []byte) int {
	first := text[0]
	switch {
	case first < 0xc2:
		return 0 // in the middle of a rune, or overlong
	case first < 0xe0:
		if len(text) < 2 || !continues(text[1]) {
			return 0
		}
		return 2
	case first < 0xf0:
		if len(text) < 3 || !continues(text[1]) || !continues(text[2]) {
			return 0
		}
		if first == 0xe0 && text[1] < 0xa0 || first == 0xed && text[1] > 0x9f { // overlong, a surrogate
			return 0
		}
		return 3
	case first < 0xf5:
		if len(text) < 4 || !continues(text[1]) || !continues(text[2]) || !continues(text[3]) {
			return 0
		}
		if first == 0xf0 && text[1] < 0x90 || first == 0xf4 && text[1] > 0x8f { // overlong, beyond the last rune
			return 0
		}
		return 4
	}
	return 0
}

// continues reports whether a byte is within a rune, and not its first.
func continues(c byte) bool { return c&0xc0 == 0x80 }
