// Package rateheaders shows HTTP callers where they stand and when to come back, in the headers that SDKs
// read. Every door of the governor shows the same ones.
package rateheaders

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// In the canonical form: they are set without converting them.
var (
	requests   = [3]string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}
	tokens     = [3]string{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}
	concurrent = [3]string{"X-Ratelimit-Limit-Concurrent", "X-Ratelimit-Remaining-Concurrent"}
)

// Show sets the headers of a tenant's standing in a pool, and returns it: on each axis, the limit that leaves
// least. Without a pool it is that of the tenant's own limits.
func Show(h http.Header, gov *governor.Governor, tenant, pool string) governor.Standing {
	if mode := gov.Degraded(pool); mode != "" {
		h.Set("X-Llmgov-Degraded", mode)
	}
	st := gov.Standing(tenant, pool)
	show(h, requests, st.Requests)
	show(h, tokens, st.Tokens)
	show(h, concurrent, st.Concurrent)
	return st
}

func show(h http.Header, names [3]string, q governor.Quota) {
	if q.Limit == 0 {
		return
	}
	v := make([]string, 3) // one allocation for the three values
	v[0] = strconv.FormatInt(q.Limit, 10)
	v[1] = strconv.FormatInt(q.Remaining, 10)
	h[names[0]] = v[0:1:1]
	h[names[1]] = v[1:2:2]
	if names[2] != "" {
		v[2] = q.Reset.Round(time.Millisecond).String()
		h[names[2]] = v[2:3:3]
	}
}

// Retry tells when to come back, if that is known. It is rounded up, since a call that comes
// back too early is refused again.
func Retry(h http.Header, d time.Duration) {
	if d <= 0 {
		return
	}
	h.Set("retry-after-ms", strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10))
	h.Set("Retry-After", strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10))
}

// Final tells SDKs not to retry by themselves.
func Final(h http.Header) { h.Set("x-should-retry", "false") }

// Queued tells how long the call waited.
func Queued(h http.Header, d time.Duration) {
	if d >= time.Millisecond {
		h.Set("X-Llmgov-Queue-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
}
