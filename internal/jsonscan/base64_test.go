package jsonscan

import (
	"bytes"
	"strings"
	"testing"
)

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
