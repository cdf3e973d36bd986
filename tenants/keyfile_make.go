package tenants

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// NewKey makes an API key with 192 random bits. label is a part of it, so that people can tell keys apart; see
// [CheckKeyLabel]. The prefix makes a leaked key easy to find.
func NewKey(label string) string {
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "llmg_" + label + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

// CheckKeyLabel answers what is wrong with a label of a key, or nil.
func CheckKeyLabel(label string) error {
	if label == "" || len(label) > maxName || strings.Trim(label, "-0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("a key's name has lower-case letters, digits and dashes, not %s", show(label))
	}
	return nil
}

// CheckKeyName answers what is wrong with the name of a key, which may be empty, or nil.
func CheckKeyName(name string) error {
	if complaint := checkName(name); name != "" && complaint != "" {
		return fmt.Errorf("name: %s %s", show(name), complaint)
	}
	return nil
}
