package tenants

import (
	"testing"

	"pgregory.net/rapid"
)

// TestKeyTable_Oracle finds what a map would, also among hashes that begin alike.
func TestKeyTable_Oracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hash := rapid.Custom(func(rt *rapid.T) (h KeyHash) {
			h[0], h[7], h[31] = rapid.Byte().Draw(rt, "low")%4, rapid.Byte().Draw(rt, "high")%2, rapid.Byte().Draw(rt, "last")%8
			return h
		})
		all := rapid.SliceOfNDistinct(hash, 0, 60, rapid.ID).Draw(rt, "keys")
		want := map[KeyHash]int{}
		list := make([]Tenant, 3)
		for i, h := range all {
			tn := &list[i%3]
			want[h] = i % 3
			tn.Keys = append(tn.Keys, Key{Hash: h})
		}
		table := keysOf(list)
		for range 50 {
			h := hash.Draw(rt, "asked")
			at, there := want[h]
			if s := table.slot(&h); s.used != there || there && (s.at.tenant != at || s.at.key.Hash != h) {
				rt.Fatalf("%s: found %+v, want %+v, %v", h, *s, at, there)
			}
		}
	})
}
