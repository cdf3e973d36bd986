package tenants

import (
	"encoding/binary"
)

// keyTable finds keys by their hashes. A hash is as good as random, so its first bytes are the place at which to seek,
// and nothing is hashed again.
type keyTable struct {
	slots []keySlot // a power of two of them, of which at least half are free
	mask  uint64
}

type keySlot struct {
	hash KeyHash
	at   keyAt
	used bool
}

// keyAt is a key, and the place of the tenant whose it is.
type keyAt struct {
	tenant int
	key    *Key
}

// newKeyTable is a table with room for so many keys.
func newKeyTable(keys int) keyTable {
	size := 2
	for size < 2*keys {
		size *= 2
	}
	return keyTable{slots: make([]keySlot, size), mask: uint64(size - 1)}
}

// put adds a key, or replaces that of the same hash.
func (t *keyTable) put(at keyAt) {
	h := &at.key.Hash
	*t.slot(h) = keySlot{*h, at, true}
}

// has reports whether a key is there.
func (t *keyTable) has(h *KeyHash) bool { return t.slot(h).used }

// slot is that of a hash, or the free one where it belongs.
func (t *keyTable) slot(h *KeyHash) *keySlot {
	for i := binary.LittleEndian.Uint64(h[:]); ; i++ {
		s := &t.slots[i&t.mask]
		if !s.used || s.hash == *h {
			return s
		}
	}
}
