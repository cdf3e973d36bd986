package tokens

import "bytes"

// Scale is how many units of Weigh make one token before calibration.
const Scale = 64

// classWeight is what a byte adds, in units of 1/Scale token. The weights are
// fitted by eye to BPE vocabularies of 100–200k entries: English prose has
// about 4.3 letters a token, numbers are cut every three digits, punctuation
// is mostly a token of its own, and a CJK character of three bytes is a bit
// more than a token.
var classWeight = func() (w [256]uint8) {
	for b := range w {
		switch {
		case b >= 0x80:
			w[b] = 26
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			w[b] = 15
		case '0' <= b && b <= '9':
			w[b] = 24
		case b == ' ':
			w[b] = 6
		case b == '\\': // an escape in JSON: what follows is the character
			w[b] = 2
		case b < 0x20:
			w[b] = 4
		default:
			w[b] = 40
		}
	}
	return w
}()

// attachmentTokens is what a file or image inside a prompt counts, whatever
// its size: base64 is not text.
const attachmentTokens = 1024

var base64Mark = []byte(";base64,")

// Weigh adds up a text's bytes by class, in units of 1/Scale token. The text
// is JSON as it came: keys and quotes weigh too. Data URLs count as one
// attachment each.
func Weigh(text []byte) int64 {
	var sum int64
	for {
		i := bytes.Index(text, base64Mark)
		if i < 0 {
			return sum + weighText(text)
		}
		sum += weighText(text[:i]) + attachmentTokens*Scale
		text = text[i+len(base64Mark):]
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return sum
		}
		text = text[end:]
	}
}

func weighText(text []byte) int64 {
	var sum int64
	for _, b := range text {
		sum += int64(classWeight[b])
	}
	return sum
}
