package tenants

import (
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// The shapes of a key file.
var (
	keysShape = shape[RuntimeKeys]{Fields: []field[RuntimeKeys]{
		{Name: "keys", Read: readRuntimeKeys},
		{Name: "revoked", Read: readRevokedKeys},
	}}
	runtimeKeyShape = shape[keyEntry]{Fields: []field[keyEntry]{
		{Name: "id", Read: func(v value, k *keyEntry) { k.id, _ = v.Scalar() }},
		{Name: "tenant", Read: func(v value, k *keyEntry) { k.Tenant = readName(v) }},
		{Name: "hash", Read: func(v value, k *keyEntry) { k.Hash = readHashInFile(v) }},
		{Name: "name", Read: func(v value, k *keyEntry) { k.Name = readName(v) }},
		{Name: "created", Read: func(v value, k *keyEntry) { k.Created = readTimeInFile(v) }},
		{Name: "expires", Read: func(v value, k *keyEntry) { k.Expires = readTimeInFile(v) }},
	}}
	revokedKeyShape = shape[RevokedKey]{Fields: []field[RevokedKey]{
		{Name: "hash", Read: func(v value, k *RevokedKey) { k.Hash = readHashInFile(v) }},
		{Name: "at", Read: func(v value, k *RevokedKey) { k.At = readTimeInFile(v) }},
	}}
)

// keyEntry is a key as it is written, with the id for people to find it by.
type keyEntry struct {
	RuntimeKey
	id string
}

// readKeys reads what a key file holds.
func readKeys(r *report, name string, data []byte) RuntimeKeys {
	var keys RuntimeKeys
	if doc := strictyaml.Parse(r, strictyaml.File{Name: name, Data: data, Expand: refuseVariables}); doc != nil {
		keysShape.Read(strictyaml.Root(r, doc), &keys)
	}
	return keys
}

func readRuntimeKeys(v value, keys *RuntimeKeys) {
	list, _ := v.Items()
	seen := make(map[KeyHash]bool, len(list))
	for _, it := range list {
		var k keyEntry
		if !readEntry(it, runtimeKeyShape, &k, "id", "tenant", "hash", "created") {
			continue
		}
		if k.id != k.Hash.ID() {
			it.Problem("id (not shown) is not that of its hash, %s; write that, or the right hash", k.Hash.ID())
		}
		if seen[k.Hash] {
			it.Problem("%s is there twice; remove one", k.Hash.ID())
		}
		seen[k.Hash] = true
		keys.Keys = append(keys.Keys, k.RuntimeKey)
	}
}

func readRevokedKeys(v value, keys *RuntimeKeys) {
	list, _ := v.Items()
	seen := make(map[KeyHash]bool, len(list))
	for _, it := range list {
		var k RevokedKey
		if !readEntry(it, revokedKeyShape, &k, "hash", "at") {
			continue
		}
		if seen[k.Hash] {
			it.Problem("%s is there twice; remove one", k.Hash.ID())
		}
		seen[k.Hash] = true
		keys.Revoked = append(keys.Revoked, k)
	}
}

// readEntry reads one entry of a list, and answers whether it is well written and has all that it needs.
func readEntry[T any](v value, s shape[T], into *T, needs ...string) bool {
	before := len(v.Report.Problems)
	list, ok := v.Pairs()
	if !ok {
		return false
	}
	s.ReadPairs(list, into)
	for _, key := range needs {
		if !strictyaml.Has(list, key) {
			v.Problem("has no %s; it was not written by llmgov, so write one or remove the entry", key)
		}
	}
	return len(v.Report.Problems) == before
}

// hashInFile reads the hash of a key. What stands there by mistake may be a key itself, so no message shows it.
func readHashInFile(v value) KeyHash {
	text, ok := v.Scalar()
	if !ok {
		return KeyHash{}
	}
	h, ok := ParseKeyHash(text)
	if !ok {
		v.Problem("value (not shown) is not sha256: and 64 lower-case hexadecimal digits")
	}
	return h
}

func readTimeInFile(v value) time.Time {
	text, ok := v.Scalar()
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !writable(at) {
		v.Problem("%s is not a time; write one such as 2027-01-31T00:00:00Z", strictyaml.Show(text))
	}
	return at.UTC()
}

// writable says whether a time can be written so that it is read again. In UTC it may be in another year than it was
// written in.
func writable(t time.Time) bool { y := t.UTC().Year(); return y >= 0 && y <= 9999 }

// encodeKeys writes what readKeys reads.
func encodeKeys(keys RuntimeKeys) []byte {
	var b strings.Builder
	b.WriteString("# Written by llmgov: API keys made and revoked at run time. See /api/v1/keys.\n")
	list := func(name string, n int, entry func(i int) string) {
		if n == 0 {
			b.WriteString(name + ": []\n")
			return
		}
		b.WriteString(name + ":\n")
		for i := range n {
			b.WriteString("  - {" + entry(i) + "}\n")
		}
	}
	list("keys", len(keys.Keys), func(i int) string {
		k := keys.Keys[i]
		text := "id: " + k.Hash.ID() + ", tenant: " + quote(k.Tenant) + ", hash: " + quote(k.Hash.String())
		if k.Name != "" {
			text += ", name: " + quote(k.Name)
		}
		text += ", created: " + quoteTime(k.Created)
		if !k.Expires.IsZero() {
			text += ", expires: " + quoteTime(k.Expires)
		}
		return text
	})
	list("revoked", len(keys.Revoked), func(i int) string {
		k := keys.Revoked[i]
		return "hash: " + quote(k.Hash.String()) + ", at: " + quoteTime(k.At)
	})
	return []byte(b.String())
}

// quote writes a printable text for YAML.
func quote(text string) string { return strconv.Quote(text) }

func quoteTime(t time.Time) string { return quote(t.UTC().Format(time.RFC3339)) }
