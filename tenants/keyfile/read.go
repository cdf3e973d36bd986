package keyfile

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// byHand is what is to be done about an entry that lacks a key.
const byHand = "it was not written by llmgov, so write one or remove the entry"

// The shapes of a key file.
var (
	fileShape = strictyaml.Shape[Content]{Fields: []strictyaml.Field[Content]{
		{Name: "version", Read: func(v strictyaml.Value, _ *Content) { checkVersion(v) }},
		{Name: "keys", Read: readEntries},
		{Name: "revoked", Read: readRevoked},
	}}
	entryShape = strictyaml.Shape[writtenEntry]{Fields: []strictyaml.Field[writtenEntry]{
		{Name: "id", Read: func(v strictyaml.Value, k *writtenEntry) { k.id, _ = v.Scalar() }, Need: byHand},
		{Name: "tenant", Read: func(v strictyaml.Value, k *writtenEntry) { k.Tenant = v.Named() }, Need: byHand},
		{Name: "hash", Read: func(v strictyaml.Value, k *writtenEntry) { k.Hash = readHash(v) }, Need: byHand},
		{Name: "name", Read: func(v strictyaml.Value, k *writtenEntry) { k.Name = v.Named() }},
		{Name: "created", Read: func(v strictyaml.Value, k *writtenEntry) { k.Created = readTime(v) }, Need: byHand},
		{Name: "expires", Read: func(v strictyaml.Value, k *writtenEntry) { k.Expires = readTime(v) }},
	}}
	revokedShape = strictyaml.Shape[Revoked]{Fields: []strictyaml.Field[Revoked]{
		{Name: "hash", Read: func(v strictyaml.Value, k *Revoked) { k.Hash = readHash(v) }, Need: byHand},
		{Name: "at", Read: func(v strictyaml.Value, k *Revoked) { k.At = readTime(v) }, Need: byHand},
	}}
)

// writtenEntry is a key as it is written, with the id for people to find it by.
type writtenEntry struct {
	Entry
	id string
}

// Parse reads a key file, and notes its problems in r.
func Parse(r *strictyaml.Report, name string, data []byte) Content {
	var keys Content
	if doc := strictyaml.Parse(r, strictyaml.File{Name: name, Data: data, Expand: strictyaml.NoVariables}); doc != nil {
		fileShape.Read(strictyaml.Root(r, doc), &keys)
	}
	return keys
}

// version is that of the format. It is not written yet, because a file without one is of version 1, and the first release knows
// no such key.
const version = "1"

func checkVersion(v strictyaml.Value) {
	if text, ok := v.Scalar(); ok && text != version {
		v.Problem("%s is that of a later llmgov, and this one reads version %s; run that release, or restore the file from a copy", v.Say(text), version)
	}
}

func readEntries(v strictyaml.Value, keys *Content) {
	list, _ := v.Items()
	seen := make(map[Hash]bool, len(list))
	for _, it := range list {
		var k writtenEntry
		if !readEntry(it, entryShape, &k) {
			continue
		}
		if k.id != k.Hash.ID() {
			it.Problem("id (not shown) is not that of its hash, %s; write that, or the right hash", k.Hash.ID())
		}
		if seen[k.Hash] {
			it.Problem("%s is there twice; remove one", k.Hash.ID())
		}
		seen[k.Hash] = true
		keys.Keys = append(keys.Keys, k.Entry)
	}
}

func readRevoked(v strictyaml.Value, keys *Content) {
	list, _ := v.Items()
	seen := make(map[Hash]bool, len(list))
	for _, it := range list {
		var k Revoked
		if !readEntry(it, revokedShape, &k) {
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
func readEntry[T any](v strictyaml.Value, s strictyaml.Shape[T], into *T) bool {
	before := len(v.Report.Problems)
	_, known := s.Read(v, into)
	return known && len(v.Report.Problems) == before
}

// readHash reads the hash of a key. No message shows it, because it may be a key itself, by mistake.
func readHash(v strictyaml.Value) Hash {
	text, ok := v.Scalar()
	if !ok {
		return Hash{}
	}
	h, ok := ParseHash(text)
	if !ok {
		v.Problem("value (not shown) is not sha256: and 64 lower-case hexadecimal digits")
	}
	return h
}

func readTime(v strictyaml.Value) time.Time {
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
