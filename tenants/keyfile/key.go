package keyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unsafe"
)

// Hash is the SHA-256 of an API key as a client sends it. Only hashes are kept, in files and in memory.
type Hash [sha256.Size]byte

// Key is an API key, by its hash.
type Key struct {
	Hash Hash
	// Name tells people the purpose of the key. It may be empty.
	Name string
	// Expires is when it is good no longer. The zero time is never.
	Expires time.Time
}

// Expired reports whether the key is good no longer.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// HashPrefix begins each hash in a file.
const HashPrefix = "sha256:"

// HashKey is the hash of a key.
func HashKey(key string) Hash {
	// A conversion would copy the key to the heap, since Sum256 lets its argument escape. It only reads it, so it may
	// read the string's own bytes.
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(key), len(key)))
}

// String is the form policy files use: "sha256:" and 64 lower-case hexadecimal digits.
func (h Hash) String() string {
	return HashPrefix + hex.EncodeToString(h[:])
}

// MarshalText writes the form of [Hash.String].
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash reads the form that [Hash.String] writes, and nothing else.
func ParseHash(text string) (Hash, bool) {
	var h Hash
	digits, ok := strings.CutPrefix(text, HashPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(h)) || strings.ContainsAny(digits, "ABCDEF") {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

// IDPrefix begins each ID.
const IDPrefix = "key_"

// ID names the key where its hash is too long: in URLs and logs.
func (h Hash) ID() string { return IDPrefix + hex.EncodeToString(h[:8]) }
