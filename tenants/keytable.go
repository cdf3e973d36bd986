package tenants

import "encoding/binary"

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

// keyAt is where a key is: of which tenant, and which of its keys.
type keyAt struct{ tenant, key int32 }

func newKeyTable(list []Tenant) keyTable {
	keys := 0
	for i := range list {
		keys += len(list[i].Keys)
	}
	size := 2
	for size < 2*keys {
		size *= 2
	}
	t := keyTable{slots: make([]keySlot, size), mask: uint64(size - 1)}
	for i := range list {
		for j, k := range list[i].Keys {
			*t.slot(&k.Hash) = keySlot{k.Hash, keyAt{int32(i), int32(j)}, true}
		}
	}
	return t
}

// slot is that of a hash, or the free one where it belongs.
func (t *keyTable) slot(h *KeyHash) *keySlot {
	for i := binary.LittleEndian.Uint64(h[:]); ; i++ {
		s := &t.slots[i&t.mask]
		if !s.used || s.hash == *h {
			return s
		}
	}
}
