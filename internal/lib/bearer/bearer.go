// Package bearer reads the key or token by which a request shows whose it is.
package bearer

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Credential is the key or token of a request, from the first of the headers that SDKs use.
func Credential(h http.Header) string {
	return Among(h.Get("Authorization"), h.Get("X-Api-Key"), h.Get("Api-Key"))
}

// Among is the key or token among the values of those headers.
func Among(authorization, xAPIKey, apiKey string) string {
	if scheme, key, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return cmp.Or(xAPIKey, apiKey)
}

// Token is the token of a listener. The zero Token is none.
type Token struct {
	hash [sha256.Size]byte
	some bool
}

// NewToken returns a token; "" is none.
func NewToken(text string) Token { return Token{sha256.Sum256([]byte(text)), text != ""} }

// None reports whether there is no token.
func (t Token) None() bool { return !t.some }

// Is reports whether a credential is the token, in a time that tells nothing of it.
func (t Token) Is(credential string) bool {
	got := sha256.Sum256([]byte(credential))
	return subtle.ConstantTimeCompare(got[:], t.hash[:]) == 1 && t.some
}

// Proof shows to who has the token, and to nobody else, that a text comes from somebody who has it too.
func (t Token) Proof(text string) string {
	mac := hmac.New(sha256.New, t.hash[:])
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// Proves reports whether a proof is that of a text.
func (t Token) Proves(proof, text string) bool {
	return t.some && hmac.Equal([]byte(proof), []byte(t.Proof(text)))
}

// Local reports whether a request is addressed to localhost or a loopback address, given its Host. A listener
// without a token demands that: a web page elsewhere can make its own name resolve to this machine, but cannot
// call itself localhost.
func Local(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false // such as localhost:9090/#@elsewhere
		}
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
