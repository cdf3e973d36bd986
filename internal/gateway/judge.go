package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/upstreams"
)

// judge says what an answer, or none, says of its upstream.
func (c *call) judge(resp *http.Response, err error) upstreams.Outcome {
	t := c.try
	c.said = upstreams.Told{}
	switch {
	case err != nil && (c.gone() || c.cut()):
		return upstreams.Abandoned
	case err != nil:
		return upstreams.Silent
	}
	t.sent.Store(true)
	t.status = resp.StatusCode
	c.said = upstreams.Read(resp.Header)
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		switch c.refusedFor(resp) {
		case "too large":
			return upstreams.Served
		case codeBudget:
			return upstreams.Failed
		}
	case statusOverloaded:
	case http.StatusServiceUnavailable:
		if upstreams.ReadRetry(resp.Header, t.began) == 0 {
			return upstreams.Failed
		}
	case http.StatusUnauthorized, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return upstreams.Failed
	default:
		return upstreams.Served
	}
	t.busy = true
	c.said.Retry = upstreams.ReadRetry(resp.Header, time.Now())
	return upstreams.Busy
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// mostError bounds how much of an error is looked at.
const mostError = 64 << 10

// refusedFor looks into a 429, and keeps it to be passed on. One whose call alone is
// larger than the limit says nothing of others, and who has not paid is not helped by
// coming back.
func (c *call) refusedFor(resp *http.Response) string {
	body := newIdleBody(resp.Body, c.world.snap.Config().Timeouts.StreamIdle, c.interrupt)
	text, err := io.ReadAll(io.LimitReader(body, mostError))
	resp.Body = &kept{io.MultiReader(bytes.NewReader(text), body), body}
	detail := gjson.GetBytes(text, "error")
	switch {
	case err == nil && detail.Get("code").Str == codeBudget:
		return codeBudget
	case err == nil && (resp.Header.Get("X-Should-Retry") == "false" || strings.HasPrefix(detail.Get("message").Str, "Request too large")):
		return "too large"
	}
	return ""
}

// kept is a body of which the beginning was read.
type kept struct {
	io.Reader
	io.Closer
}

// tell lets the pool know what came of a try, and the governor if that changes what can
// be had of the pool.
func (c *call) tell(said upstreams.Outcome) {
	t := c.try
	t.told = true
	m := c.pool.set.Members[t.index]
	events := m.Report(time.Now(), upstreams.Result{Outcome: said, Probe: t.probe, Told: c.said, Model: c.head.model})
	if t.busy {
		c.comeBack = time.Until(m.State(time.Now()).Retry)
	}
	t.probe = false
	if events.Any() {
		c.g.noteEvents(c.pool, m, events)
	}
}

// giveUp ends a try of which nothing was told.
func (c *call) giveUp() {
	if c.try.up != nil && !c.try.told {
		c.tell(upstreams.Abandoned)
	}
}
