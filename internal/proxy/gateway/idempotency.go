package gateway

import (
	"hash/maphash"
	"net/http"
	"strconv"

	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// digestSeed keeps callers from making calls that collide.
var digestSeed = maphash.MakeSeed()

// retry is how the call is recognized that was made before: by its Idempotency-Key, or by the count of
// retries that Stainless SDKs (openai, anthropic) send.
func (c *call) retry() ask.Retry {
	r := ask.Retry{Key: c.r.Header.Get("Idempotency-Key"), Attempt: describe.Attempt(c.r.Header)}
	if r.Key != "" && c.r.Method == http.MethodPost {
		r.Once = true
		r.Digest = c.asks()
	}
	return r
}

// asks is a hash of everything that makes two calls the same: path, query and body. Of a form that is
// the fields that were read, because its boundary is drawn anew for each try.
func (c *call) asks() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	text := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	text(c.at.Path)
	text(c.r.URL.RawQuery)
	if c.form == nil {
		_, _ = h.Write(c.body)
		return h.Sum64()
	}
	for i := range c.form.Parts {
		p := &c.form.Parts[i]
		text(p.Name)
		text(p.Filename)
		text(p.Type)
		text(strconv.Itoa(len(p.Content)))
		_, _ = h.Write(p.Content)
	}
	return h.Sum64()
}
