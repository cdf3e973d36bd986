package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// maxAnswer bounds an answer that is held before it is passed on.
const maxAnswer = 64 << 20

// upstreamSaid is an answer of the upstream other than 2xx, to be passed on.
type upstreamSaid struct {
	status int
	header http.Header
	body   []byte
}

func (e *upstreamSaid) Error() string { return "the upstream answered " + strconv.Itoa(e.status) }

// serveList answers a list with the part of it that the tenant may see.
func (c *call) serveList() {
	c.try.Sent.Store(true) // it counts as a request also where the answer is known without asking
	found, err := c.findOwn()
	if err != nil {
		c.listFailed(err)
		return
	}
	if f := found.TooLong(); f != nil {
		c.End(telemetry.OK, "", noUsage)
		c.refuse(f)
		return
	}
	err = found.Each(c.keepShown)
	if err != nil {
		c.listFailed(err)
		return
	}
	c.End(telemetry.OK, "", noUsage)
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(found.JSON())
}

// findOwn reads the upstream's list for the objects that the tenant may see.
func (c *call) findOwn() (*stored.List, error) {
	if !c.stored.HasAny(c.try.up.Name, c.route.Shows) {
		return &stored.List{}, nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.headWithin(c.head.Stream))
	defer cancel()
	sees := func(id string) bool { return c.sees(c.try.up.Name, id) }
	return c.page.Read(c.query, sees, func(query url.Values) ([]byte, error) {
		return c.ask(ctx, http.MethodGet, c.at.Path, query)
	})
}

// keepShown records the objects that an object which is shown has brought forth. They belong to its owner.
func (c *call) keepShown(id, raw string) error {
	e, ok := c.g.objects.Owner(c.keyOf(id))
	if ok { // else somebody deleted it a moment ago
		if _, err := c.stored.Keep(c.r.Context(), c.try.up.Name, stored.Offspring(c.route.Shows, raw), e.Owner); err != nil {
			return err
		}
	}
	c.stored.Seen(c.keyOf(id), gjson.Parse(raw))
	return nil
}

// ask sends a request of the gateway's own to the upstream, with the tenant's headers,
// and reads the answer. The upstream may fall silent in it for no longer than in others.
func (c *call) ask(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	r, err := http.NewRequestWithContext(ctx, method, c.try.up.Address.URL(path, c.try.model, query), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = c.upstreamHeader(c.r.Header)
	resp, err := c.try.up.RoundTrip(c.g.transport, r)
	said := c.classify(resp, err)
	if err != nil && ctx.Err() != nil {
		said = upstreams.Abandoned // it was not waited for
	}
	c.tell(said)
	if err != nil {
		return nil, err
	}
	resp.Body = relay.Idle(resp.Body, c.world.Snapshot.Config().Timeouts.StreamIdle, interrupt)
	defer resp.Body.Close()
	if err := c.try.withheld(resp); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, stored.ErrUnreadable
	case resp.StatusCode/100 != 2:
		return nil, &upstreamSaid{resp.StatusCode, resp.Header, body}
	}
	return body, nil
}

// listFailed answers when a list could not be read.
func (c *call) listFailed(err error) {
	if said, ok := errors.AsType[*upstreamSaid](err); ok {
		said.header.Del("Content-Length") // not all of it may have been read
		answers.Headers(c.w.Header(), said.header, c.try.up.Secrets, dialect.RatePrefixes)
		c.showComeBack(said.header)
		c.w.WriteHeader(said.status)
		_, _ = c.w.Write(said.body)
		return // finish counts it
	}
	c.refuse(c.unanswered(err))
}
