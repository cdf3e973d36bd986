package tokens

// Scale is how many units of Weigh make one token before calibration.
const Scale = 64

// letterWeight is what a letter of prose adds.
const letterWeight = 15

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
			w[b] = letterWeight
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

// Weigh adds up a text's bytes by class, in units of 1/Scale token. Words that are not parted by
// spaces are text like any other, because a model reads them just as well.
func Weigh(text []byte) (sum int64) {
	for _, b := range text {
		sum += int64(classWeight[b])
	}
	return sum
}
