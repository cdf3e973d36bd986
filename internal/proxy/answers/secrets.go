package answers

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// shortest is how long a key must be to be searched for. Local model servers are given words such as
// "EMPTY" or "placeholder", which answers may contain by chance.
const shortest = 16

// mask takes the place of each byte of a secret, so that texts keep their length.
const mask = '*'

// Secrets are texts that no caller may see. The zero value has none.
type Secrets struct {
	list    [][]byte
	longest int
}

// NewSecrets returns the secrets that a key comes to: the key as it is, and as JSON and URLs write
// it if it has characters that these escape.
func NewSecrets(key string) Secrets {
	if len(key) < shortest {
		return Secrets{}
	}
	var s Secrets
	for _, form := range []string{
		key,
		strings.ReplaceAll(key, "/", `\/`),
		escapeJSON(key, "%04x"),
		escapeJSON(key, "%04X"),
		url.QueryEscape(key),
	} {
		if !slices.ContainsFunc(s.list, func(known []byte) bool { return string(known) == form }) {
			s.list = append(s.list, []byte(form))
			s.longest = max(s.longest, len(form))
		}
	}
	return s
}

// escapeJSON is a text as careful JSON encoders write it: those of .NET escape everything that HTML
// or URLs might read.
func escapeJSON(text, hex string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(`+&<>'"`+"`", c) >= 0 {
			fmt.Fprintf(&b, `\u`+hex, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// In reports whether a text contains a secret.
func (s Secrets) In(text string) bool {
	return slices.ContainsFunc(s.list, func(secret []byte) bool { return len(secret) <= len(text) && strings.Contains(text, string(secret)) })
}

// Hide masks every secret in a text, in place. It reports whether there was one.
func (s Secrets) Hide(text []byte) (found bool) {
	for _, secret := range s.list {
		for rest := text; ; {
			i := bytes.Index(rest, secret)
			if i < 0 {
				break
			}
			found = true
			for k := range secret {
				rest[i+k] = mask
			}
			rest = rest[i+len(secret):]
		}
	}
	return found
}

// begun returns how many bytes at the end of a text may be the beginning of a secret.
func (s Secrets) begun(text []byte) (most int) {
	for _, secret := range s.list {
		at := max(0, len(text)-len(secret)+1)
		for at < len(text) {
			i := bytes.IndexByte(text[at:], secret[0])
			if i < 0 {
				break
			}
			at += i
			if bytes.HasPrefix(secret, text[at:]) {
				most = max(most, len(text)-at)
				break
			}
			at++
		}
	}
	return most
}
