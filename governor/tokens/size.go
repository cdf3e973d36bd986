package tokens

// Kind is how a part of a prompt becomes tokens.
type Kind uint8

const (
	// Text is weighed by its bytes. In texts whose characters are known it is their letters.
	Text Kind = iota
	// Image is a picture, in the body or by its address.
	Image
	// Sound is speech or music in the body.
	Sound
	// Document is a file of text, in base64 or by its length, which is weighed as the text that it
	// may hold.
	Document
	// Elsewhere is text of which nothing tells the length: a document by its address, a stored
	// prompt, what a tool of the provider finds.
	Elsewhere
	// Digits, Punctuation, Scripts (all characters that are not ASCII) and Blanks are text as well, weighed apart.
	Digits
	Punctuation
	Scripts
	Blanks
	kinds
)

// Size is how large a prompt is: the weight of its parts by kind, in units of 1/Scale token.
type Size [kinds]int64

// Plus is the sum of two sizes.
func (s Size) Plus(o Size) Size {
	for k := range s {
		s[k] += o[k]
	}
	return s
}

// Text is the weight of its text.
func (s Size) Text() (sum int64) {
	for _, k := range classes {
		sum += s[k]
	}
	return sum
}

// sure is the part of a text's weight that no ratio makes less of: the fewest tokens that texts of its characters
// are taken to have, whatever texts before it had. What frames a short one, keys and brackets, is none of it.
func (s Size) sure() int64 {
	sum := -int64(framing)
	for _, k := range classes {
		sum += s[k] * weights[k].sure / weights[k].likely
	}
	return max(0, sum)
}

// Denser reports whether so many tokens are more than the text's characters explain. What frames a short text weighs about as much as its text, and
// becomes few tokens, or none.
func (s Size) Denser(tokens int64) bool { return tokens*Scale > s.Text()+framing }

// mostly is the class that has most of the text's weight.
func (s Size) mostly() Kind {
	most := Text
	for _, k := range classes {
		if s[k] > s[most] {
			most = k
		}
	}
	return most
}

// gathered has all of the text in the class that it mostly consists of, by whose ratio it goes.
func (s Size) gathered() Size {
	text := s.Text()
	mostly := s.mostly()
	for _, k := range classes {
		s[k] = 0
	}
	s[mostly] = text
	return s
}

// IsText reports whether it is all text.
func (s Size) IsText() bool { return s.Text() == s.Weight() }

// Weight is the weight of all parts together.
func (s Size) Weight() (sum int64) {
	for _, w := range s {
		sum += w
	}
	return sum
}

// Pictures is what n images weigh, whatever their bytes: providers scale a picture down and count
// its area, and a picture of one colour has few bytes. 1600 tokens are the most that Anthropic
// counts at 1568 pixels a side (width × height / 750), and a little more than the eight tiles of
// OpenAI's high detail (85 + 8 × 170). Models that count otherwise are learned.
//
// https://docs.anthropic.com/en/docs/build-with-claude/vision#calculate-image-costs
// https://platform.openai.com/docs/guides/images-vision#calculating-costs
func Pictures(n int64) int64 { return n * 1600 * Scale }

// SoundOf is what a recording of so many bytes weighs. OpenAI counts ten tokens a second of what is
// heard, and speech has 2 kB a second or more in the codecs that are sent.
//
// https://platform.openai.com/docs/guides/realtime-costs
func SoundOf(bytes int64) int64 { return bytes * Scale / 200 }

// DocumentOf is what a file of so many bytes weighs that is known by its length alone: as prose.
func DocumentOf(bytes int64) int64 { return bytes * letterWeight }

// Unknown is how many tokens a thing of unknown size is assumed to have by whoever does not know its pool's default_max_output.
const Unknown = 4096

// framing is how much of a text is not sure, because keys and brackets become few tokens, or none.
const framing = 16 * Scale

// Least is the fewest tokens that a prompt can have: those of its text, by the smallest ratio that
// is believed. How many tokens files have is only guessed, and no prompt is refused for a guess.
func (s Size) Least() int64 { return estimate(s.Text(), minRatio) }
