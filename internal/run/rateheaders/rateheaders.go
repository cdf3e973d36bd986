// Package rateheaders shows HTTP callers where they stand, when to come back and who refused, in the headers that SDKs
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
	var room [160]byte
	list := quotas{header: h}
	text := list.add(room[:0], requests, st.Requests)
	text = list.add(text, tokens, st.Tokens)
	text = list.add(text, concurrent, st.Concurrent)
	list.set(string(text))
	return st
}

// quotas are headers in the making. The values that change with each answer are parts of one text, because there are five of them.
type quotas struct {
	header http.Header
	names  [5]string
	ends   [5]int // of the values, in the text
	n      int
}

// add sets the header of a limit, if there is one, and appends the values of the others to the text.
func (l *quotas) add(text []byte, names [3]string, q governor.Quota) []byte {
	if q.Limit == 0 {
		return text
	}
	l.header[names[0]] = limitValues(q.Limit)
	text = strconv.AppendInt(text, q.Remaining, 10)
	l.end(names[1], text)
	if names[2] != "" {
		text = append(text, q.Reset.Round(time.Millisecond).String()...)
		l.end(names[2], text)
	}
	return text
}

// end ends the value of a header.
func (l *quotas) end(name string, text []byte) {
	l.names[l.n] = name
	l.ends[l.n] = len(text)
	l.n++
}

// set sets the headers whose values are in the text.
func (l *quotas) set(text string) {
	values := make([]string, l.n)
	begin := 0
	for i, name := range l.names[:l.n] {
		values[i] = text[begin:l.ends[i]]
		l.header[name] = values[i : i+1 : i+1]
		begin = l.ends[i]
	}
}

// Retry tells when to come back, if that is known. It is rounded up, since a call that comes
// back too early is refused again. A final refusal tells SDKs not to retry by themselves; another one
// tells at most [governor.LongestTold], and its turn in a header of its own where that is later. With a 402 there is that header alone,
// because agents sleep for as long as Retry-After says.
func Retry(h http.Header, status int, d time.Duration, final bool) {
	if final {
		h.Set("x-should-retry", "false")
	}
	if d <= 0 {
		return
	}
	ms := (d + time.Millisecond - 1).Truncate(time.Millisecond)
	if status == http.StatusPaymentRequired || !final && ms > governor.LongestTold {
		h.Set("X-Llmgov-Turn-Ms", strconv.FormatInt(ms.Milliseconds(), 10))
		ms = governor.LongestTold
	}
	if status == http.StatusPaymentRequired {
		return
	}
	h.Set("retry-after-ms", strconv.FormatInt(ms.Milliseconds(), 10))
	h.Set("Retry-After", strconv.FormatInt(int64((ms+time.Second-1)/time.Second), 10))
}

// Node names the gateway that refuses, if it has a name.
func Node(h http.Header, name string) {
	if name != "" {
		h.Set("X-Llmgov-Node", name)
	}
}

// Queued tells how long the call waited.
func Queued(h http.Header, d time.Duration) {
	if d >= time.Millisecond {
		h.Set("X-Llmgov-Queue-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
}
