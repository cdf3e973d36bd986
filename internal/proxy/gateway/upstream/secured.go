package upstream

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"

	"github.com/llmgov/llmgov/tenants"
)

// secured are the transports of an upstream with TLS of its own, whose connections no other upstream may use.
type secured struct {
	config *tls.Config
	sum    [sha256.Size]byte
	by     sync.Map // the gateway's transport → one with the same settings and this TLS
}

func newSecured(t *tenants.UpstreamTLS) (*secured, error) {
	config, err := t.Client()
	if config == nil || err != nil {
		return nil, err
	}
	return &secured{config: config, sum: sha256.Sum256(fmt.Appendf(nil, "%q", *t))}, nil
}

// digest tells one TLS from another.
func (s *secured) digest() string {
	if s == nil {
		return ""
	}
	return string(s.sum[:])
}

// By is how the upstream is reached by a transport: by itself, or by one like it with the upstream's own TLS.
func (u *Upstream) By(transport http.RoundTripper) http.RoundTripper {
	if u.secured == nil {
		return transport
	}
	if own, ok := u.secured.by.Load(transport); ok {
		return own.(http.RoundTripper)
	}
	like, is := transport.(interface{ Clone() *http.Transport })
	if !is {
		return transport
	}
	own := like.Clone()
	own.TLSClientConfig = u.secured.config.Clone()
	kept, _ := u.secured.by.LoadOrStore(transport, own)
	return kept.(http.RoundTripper)
}
