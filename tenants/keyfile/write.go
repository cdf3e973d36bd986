package keyfile

import (
	"strconv"
	"strings"
	"time"
)

// Encode writes a file that Parse reads.
func Encode(keys Content) []byte {
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

// writable says whether a time can be written so that it is read again. In UTC it may be in another year than it was
// written in.
func writable(t time.Time) bool { y := t.UTC().Year(); return y >= 0 && y <= 9999 }
