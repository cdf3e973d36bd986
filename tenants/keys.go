package tenants

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unsafe"

	"go.yaml.in/yaml/v3"
)

// KeyHash is the SHA-256 of an API key as a client sends it. Only hashes are kept, in files and in memory.
type KeyHash [sha256.Size]byte

// Key is an API key, by its hash.
type Key struct {
	Hash KeyHash
	// Name tells people what the key is for. It may be empty.
	Name string
	// Expires is when it is good no longer. The zero time is never.
	Expires time.Time
}

// Expired reports whether the key is good no longer.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

const keyPrefix = "sha256:"

// HashKey is the hash of a key.
func HashKey(key string) KeyHash {
	// A conversion would copy the key to the heap, since Sum256 lets its argument escape. It only reads it, so it may
	// read the string's own bytes.
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(key), len(key)))
}

// String is the form policy files use: "sha256:" and 64 lower-case hexadecimal digits.
func (h KeyHash) String() string {
	return keyPrefix + hex.EncodeToString(h[:])
}

// ParseKeyHash reads what [KeyHash.String] writes, and nothing else.
func ParseKeyHash(text string) (KeyHash, bool) {
	var h KeyHash
	digits, ok := strings.CutPrefix(text, keyPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(h)) || strings.ContainsAny(digits, "ABCDEF") {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

// keys reads a tenant's keys. What was refused, an entry or the whole list, reads as the zero hash.
func (v value) keys() []Key {
	list, ok := v.items()
	if !ok {
		return []Key{{}}
	}
	keys := make([]Key, len(list))
	for i, it := range list {
		keys[i].Hash = it.keyHash()
	}
	return keys
}

// keyHash reads one entry of a tenant's keys. What stands there by mistake may be a key itself, so no message shows it.
func (v value) keyHash() KeyHash {
	if v.node.Kind == yaml.MappingNode {
		v.problem(`a key as a mapping (hash, name, expires) is not supported yet; write "sha256:…" alone`)
		return KeyHash{}
	}
	text, ok := v.scalar()
	if !ok {
		return KeyHash{}
	}
	h, ok := ParseKeyHash(text)
	if ok {
		return h
	}
	if strings.HasPrefix(strings.ToLower(text), keyPrefix) {
		v.problem("a key of %d characters is not sha256: and 64 lower-case hexadecimal digits; make one with llmgov keys hash",
			len(text))
		return KeyHash{}
	}
	v.problem("value (not shown) is not a key's hash; write sha256:… as printed by llmgov keys hash")
	return KeyHash{}
}
