package tokens

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

// Attachment is what a file inside a prompt weighs, whatever its size: images and
// sound are not text.
const Attachment = 1024 * Scale

// attachmentRun is from how many bytes without a gap on a run of base64 digits is
// a file. No text has such words.
const attachmentRun = 4096

var base64Digit = func() (is [256]bool) {
	for b := range is {
		is[b] = 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '+' || b == '/' || b == '-' || b == '_' || b == '='
	}
	return is
}()

// Weigh adds up a text's bytes by class, in units of 1/Scale token. The text
// is JSON as it came: keys and quotes weigh too. Files in base64 count as one
// attachment each.
func Weigh(text []byte) int64 {
	var sum, run, inRun int64
	for _, b := range text {
		w := int64(classWeight[b])
		if base64Digit[b] {
			run++
			inRun += w
			continue
		}
		if run >= attachmentRun {
			inRun = min(inRun, Attachment)
		}
		sum += inRun + w
		run, inRun = 0, 0
	}
	if run >= attachmentRun {
		inRun = min(inRun, Attachment)
	}
	return sum + inRun
}

// Least is the fewest tokens that a prompt of that weight can have, by the
// smallest ratio that is believed.
func Least(weight int64) int64 { return estimate(weight, minRatio) }
