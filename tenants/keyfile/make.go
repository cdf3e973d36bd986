package keyfile

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// NewKey makes an API key with 192 random bits. label is a part of it, so that people can tell keys apart; see
// [CheckLabel]. The prefix makes a leaked key easy to find.
func NewKey(label string) string {
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "llmg_" + label + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

// The least that a key must be. Only its hash is kept, but that is unsalted: whoever reads it finds a key of fewer bits by
// trying.
const (
	minKeyLength = 20
	minKeyBits   = 80
)

// CheckStrength answers why a key could be found from its hash by trying, or nil. Bits are counted as those of as many
// characters, drawn from the different ones that the key has.
func CheckStrength(key string) error {
	seen := map[rune]bool{}
	length := 0
	for _, c := range key {
		seen[c] = true
		length++
	}
	bits := float64(length) * math.Log2(float64(max(len(seen), 1)))
	if length >= minKeyLength && bits >= minKeyBits {
		return nil
	}
	return fmt.Errorf("the key could be guessed from its hash: it needs %d characters or more, most of them different, "+
		"and has %d (%d different); make one with llmgov keys new", minKeyLength, length, len(seen))
}

// CheckLabel complains about a label of a key.
func CheckLabel(label string) error {
	if label == "" || len(label) > strictyaml.MaxName || strings.Trim(label, "-0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("a key's name has lower-case letters, digits and dashes, not %s", strictyaml.Show(label))
	}
	return nil
}

// CheckName complains about the name of a key, which may be empty.
func CheckName(name string) error {
	if complaint := strictyaml.CheckName(name); name != "" && complaint != "" {
		return fmt.Errorf("name: %s %s", strictyaml.Show(name), complaint)
	}
	return nil
}
