package bpe

import (
	"bytes"
	"compress/flate"
	"embed"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/dlclark/regexp2/v2"
	_ "github.com/tiktoken-go/tokenizer/codec" // compiles the patterns ahead of time; its own vocabularies, three times as large, are not linked
)

// vocabularies are OpenAI's, compressed: of each token, in the order of their ranks, a byte with its length, and its bytes. They are made of
// those of the tokenizer module: go test -run Vocabularies -update.
//
//go:embed vocabularies
var vocabularies embed.FS

// How a text is cut into words, in which tokens are merged, as tiktoken has it.
const (
	o200kWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	cl100kWords = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// encoding is a vocabulary that is loaded.
type encoding struct {
	ranks map[string]uint32
	words *regexp2.Regexp
}

// Each is loaded once in a process.
var (
	loadO200k  = sync.OnceValue(func() codecs { return load("o200k", o200kWords) })
	loadCl100k = sync.OnceValue(func() codecs { return load("cl100k", cl100kWords) })
)

func load(name, words string) *encoding {
	packed, err := vocabularies.ReadFile("vocabularies/" + name)
	if err != nil {
		panic("bpe: BUG: " + err.Error())
	}
	var text strings.Builder
	if _, err := io.Copy(&text, flate.NewReader(bytes.NewReader(packed))); err != nil {
		panic("bpe: BUG: " + name + ": " + err.Error())
	}
	e := &encoding{ranks: make(map[string]uint32, text.Len()/7), words: regexp2.MustCompile(words, regexp2.None)}
	for rest := text.String(); rest != ""; {
		n := 1 + int(rest[0])
		e.ranks[rest[1:n]] = uint32(len(e.ranks))
		rest = rest[n:]
	}
	return e
}

// Count is how many tokens a text has.
func (e *encoding) Count(text string) (n int, err error) {
	word, err := e.words.FindStringMatch(text)
	for ; word != nil && err == nil; word, err = e.words.FindNextMatch(word) {
		n += e.merge(word.String())
	}
	return n, err
}

// merge is how many tokens a word has: of its bytes, the two neighbours that are the token of the lowest rank become that one, and
// so on, until no neighbours are a token.
func (e *encoding) merge(word string) int {
	if _, whole := e.ranks[word]; whole {
		return 1
	}
	from := make([]int32, len(word)+1) // where each part begins; the last one ends the word
	for i := range from {
		from[i] = int32(i)
	}
	rank := func(i, last int) uint32 { // of the token of the parts from i until last
		if last < len(from) {
			if r, known := e.ranks[word[from[i]:from[last]]]; known {
				return r
			}
		}
		return math.MaxUint32
	}
	pairs := make([]uint32, len(from)) // the rank of each part with the next one
	for i := range pairs {
		pairs[i] = rank(i, i+2)
	}
	for {
		lowest := uint32(math.MaxUint32)
		at := 0
		for i, r := range pairs {
			if r < lowest {
				lowest = r
				at = i
			}
		}
		if lowest == math.MaxUint32 {
			return len(from) - 1
		}
		from = slices.Delete(from, at+1, at+2)
		pairs = slices.Delete(pairs, at+1, at+2)
		pairs[at] = rank(at, at+2)
		if at > 0 {
			pairs[at-1] = rank(at-1, at+1)
		}
	}
}
