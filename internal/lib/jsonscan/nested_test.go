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

// Seen to fail with: a wrong class in either table, VPMAXUB for VPMINUB, no escapesSlashes, a block that begins too late.
func TestIsBase64(t *testing.T) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	valid := []byte(strings.Repeat(digits, 3))
	check := func(text []byte, want bool) {
		t.Helper()
		defer func(had bool) { hasVectors = had }(hasVectors)
		for _, vectors := range []bool{false, hasVectors} {
			hasVectors = vectors
			if got := IsBase64(text); got != want {
				t.Errorf("%q is base64: %v by vectors %v", text, got, vectors)
			}
		}
	}
	check(nil, false)
	for n := 1; n <= len(valid); n++ {
		check(valid[:n], true)
		for c := range 256 {
			text := bytes.Clone(valid[:n])
			text[n/2] = byte(c)
			isEscape := c == '\\' && n/2+1 < n && text[n/2+1] == '/'
			check(text, strings.IndexByte(digits, byte(c)) >= 0 || isEscape)
		}
	}
	check([]byte(strings.Repeat(`QUFB\/`, 50)), true)
	check([]byte(strings.Repeat(`QUFB\/`, 50)+`\`), false)
	check([]byte(strings.Repeat(`QUFB\\/`, 50)), false)
}

// The vectors know each digit, or they would stop at it and leave the rest to a slower loop.
//
// Seen to fail with: an 8 that is no digit.
func TestBase64Blocks(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor has no vectors")
	}
	for c := range 256 {
		want := 0
		if base64Digit[c] {
			want = vectorBlock
		}
		if got := base64Blocks(bytes.Repeat([]byte{byte(c)}, vectorBlock)); got != want {
			t.Errorf("of a block of %q %d bytes are base64, want %d", byte(c), got, want)
		}
	}
}
