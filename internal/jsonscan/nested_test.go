package jsonscan

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"
)

// Every byte at every place, near and far.
//
// Seen to fail with: no class for one of the brackets, in either table; a block that begins too late.
func TestNextNestedSkipsNothingThatCounts(t *testing.T) {
	had := hasVectors
	defer func() { hasVectors = had }()
	for c := range 256 {
		for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 40_000} {
			for _, rest := range []string{"", "1.5,-2e7, ", "\x80\xff\xfd", "]", "Z^\\|~z`@#\"", "[{", strings.Repeat("0.25,", 9) + "}"} {
				text := []byte(strings.Repeat("7", n) + string([]byte{byte(c)}) + rest)
				want := 0
				for want < len(text) && strings.IndexByte("\"[]{}", text[want]) < 0 {
					want++
				}
				for _, vectors := range []bool{false, had} {
					hasVectors = vectors
					if got := NextNested(text); got != want {
						t.Fatalf("%d bytes, then %q, by vectors %v: stops at %d, want %d", n, text[n:], vectors, got, want)
					}
				}
			}
		}
	}
}

// Random texts: brackets and quotes, with a few other bytes between them, again and again, up to some distance. Each is
// searched to its end, as an answer is.
//
// Seen to fail with: parts that are counted from their own beginning; a part that ends a byte behind its bracket; no quote
// among what ends the search behind the vectors. Seen to hang with a last part that is a byte too short.
func TestNextNestedAgreesWithALoop(t *testing.T) {
	defer func(had bool) { hasVectors = had }(hasVectors)
	ways := []bool{false, hasVectors}
	r := rand.New(rand.NewSource(1))
	for range 2_000 {
		between := make([]byte, 1+r.Intn(5))
		for i := range between {
			between[i] = byte(r.Intn(256))
		}
		distance := 1 + r.Intn(400)
		var text []byte
		for range r.Intn(20) {
			text = append(text, "\"[]{}"[r.Intn(5)])
			for range r.Intn(distance) {
				text = append(text, between[r.Intn(len(between))])
			}
		}
		for from := 0; from <= len(text); {
			want := 0
			for from+want < len(text) && strings.IndexByte("\"[]{}", text[from+want]) < 0 {
				want++
			}
			for _, vectors := range ways {
				hasVectors = vectors
				if got := NextNested(text[from:]); got != want {
					t.Fatalf("%q, by vectors %v: stops at %d, want %d", text[from:], vectors, got, want)
				}
			}
			from += want + 1
		}
	}
}

// The vectors stop at brackets and quotes alone, or each other byte would be looked at by the slower loop.
//
// Seen to fail with: 0x07 for 0x06.
func TestNestedBlocks(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor has no vectors")
	}
	for c := range 256 {
		want := vectorBlock
		if isNested[c] {
			want = 0
		}
		if got := nestedBlocks(bytes.Repeat([]byte{byte(c)}, vectorBlock)); got != want {
			t.Errorf("of a block of %q %d bytes are passed, want %d", byte(c), got, want)
		}
	}
}
