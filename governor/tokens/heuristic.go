package tokens

import (
	"math/bits"
	"math/rand/v2"
)

// Scale is how many units of Weigh make one token before calibration.
const Scale = 64

// letterWeight is what a letter of prose adds.
const letterWeight = 15

// class is what a byte of some class adds, in units of 1/Scale token: likely as a guess, and sure at the least. The
// guesses are fitted by eye to BPE vocabularies of 100–200k entries: English prose has
// about 4.3 letters a token, numbers are cut every three digits, punctuation
// is mostly a token of its own, and a CJK character of three bytes is a bit
// more than a token. At the least, a token has eight letters, nine bytes of other scripts, six of punctuation or five digits, and
// blanks are none.
type class struct{ likely, sure uint8 }

var (
	letters     = class{letterWeight, 8}
	digits      = class{24, 12}
	punctuation = class{40, 10}
	scripts     = class{26, 7}
	blanks      = class{6, 0}
	escapes     = class{2, 1} // in JSON: what follows is the character
	controls    = class{4, 0}
)

// classOf is the class of a byte.
func classOf(b byte) class {
	switch {
	case b >= 0x80:
		return scripts
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		return letters
	case '0' <= b && b <= '9':
		return digits
	case b == ' ':
		return blanks
	case b == '\\':
		return escapes
	case b < 0x20:
		return controls
	}
	return punctuation
}

// sums are the sums of both weights of some bytes, fewer than 2²⁶: that at the least is in the upper half.
type sums uint64

func (s sums) likely() int64 { return int64(s & (1<<sumBits - 1)) }
func (s sums) sure() int64   { return int64(s >> sumBits) }

const sumBits = 32

// classSums is what a byte adds to sums.
var classSums = func() (w [256]sums) {
	for b := range w {
		c := classOf(byte(b))
		w[b] = sums(c.sure)<<sumBits | sums(c.likely)
	}
	return w
}()

// Long texts are weighed by samples: so many blocks, in equal distances. The weight of such a text is off by less
// than 2 % in the median of what is sent as prompts, and by less than 5 % at the worst.
const (
	sampled    = 16 << 10 // bytes, above which a text is long
	blocks     = 1024
	blockBytes = 8
)

// Weigh adds up a text's bytes by class, in units of 1/Scale token. Words that are not parted by
// spaces are text like any other, because a model reads them just as well. Of texts above 16 KB it
// weighs samples, so that the time that it takes is bounded.
func Weigh(text []byte) int64 { return SizeOf(text).Text() }

// SizeOf is the size of a text, weighed as Weigh does.
func SizeOf(text []byte) Size {
	if len(text) <= sampled {
		return weigh(text).size(1, 1)
	}
	return weighSamples(text, rand.Uint64())
}

// size is the size of a text of which a part was weighed.
func (s sums) size(length, weighed int64) Size {
	least := s.sure() * length / weighed
	return Size{Text: (s.likely()*length+weighed-1)/weighed - least, Sure: least}
}

// weigh adds up every byte. Two sums at a time keep a processor busy that one sum would keep waiting.
func weigh(text []byte) sums {
	var sum, other sums
	for len(text) >= blockBytes {
		sum += weighFour((*[4]byte)(text))
		other += weighFour((*[4]byte)(text[4:]))
		text = text[blockBytes:]
	}
	for _, last := range text {
		sum += classSums[last]
	}
	return sum + other
}

// weighFour adds up four bytes. It is small enough to be inlined.
func weighFour(b *[4]byte) sums {
	return classSums[b[0]] + classSums[b[1]] + classSums[b[2]] + classSums[b[3]]
}

// weighSamples weighs one block of each of the equal parts of a text, at a place of its own in each part.
// The places are drawn anew for each text and each part: a caller who knew one of them could put
// light bytes there, and heavy ones in between.
func weighSamples(text []byte, seed uint64) Size {
	length := int64(len(text))
	sum := sums(0)
	for i := range int64(blocks) {
		start := i * length / blocks
		end := (i + 1) * length / blocks
		offset, _ := bits.Mul64(mixed(seed+uint64(i)*goldenRatio), uint64(end-start-blockBytes+1))
		start += int64(offset)
		sum += weighFour((*[4]byte)(text[start:])) + weighFour((*[4]byte)(text[start+4:]))
	}
	return sum.size(length, blocks*blockBytes)
}

// goldenRatio is the step of SplitMix64.
const goldenRatio = 0x9e3779b97f4a7c15

// mixed is the output function of SplitMix64, by Steele, Lea and Flood (2014).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
