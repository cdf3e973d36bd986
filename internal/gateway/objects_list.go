package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/upstreams"
)

const (
	// maxPages and listPatience bound how far a list is read for one answer.
	maxPages     = 20
	listPatience = 2 * time.Second
	// maxAnswer bounds an answer that is held before it is passed on.
	maxAnswer = 64 << 20
)

// upstreamSaid is an answer of the upstream other than 2xx, to be passed on.
type upstreamSaid struct {
	status      int
	contentType string
	body        []byte
}

func (e *upstreamSaid) Error() string { return "the upstream answered " + strconv.Itoa(e.status) }

// errUnreadable means that no list or object was found in an answer.
var errUnreadable = errors.New("the upstream's answer cannot be read")

// serveList answers a list with the part of it that the tenant may see.
func (c *call) serveList() {
	c.try.Sent.Store(true) // it counts as a request also where the answer is known without asking
	found := listed{}
	if c.hasAny(c.route.Shows) || c.route.Shows == objects.File && c.hasAny(objects.BatchFile) {
		ctx, cancel := context.WithTimeout(c.r.Context(), c.world.Snapshot.Config().Timeouts.UpstreamHeader)
		defer cancel()
		var err error
		found, err = c.findOwn(ctx, c.page)
		if err != nil {
			c.listFailed(err)
			return
		}
	}
	if found.short && len(found.items) == 0 {
		c.End(telemetry.OK, "", noUsage)
		c.refuse(&refusal{Status: http.StatusServiceUnavailable, Code: admission.CodeOverloaded, Message: "None of your objects is among the first of this account's list, and it was too long to be read to its end. Ask for them by their ids."})
		return
	}
	for _, item := range found.items {
		if err := c.keepShown(c.route.Shows, item.id, item.raw); err != nil {
			c.listFailed(err)
			return
		}
		c.seen(item.id, gjson.Parse(item.raw))
	}
	c.End(telemetry.OK, "", noUsage)
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(found.json())
}

func (c *call) hasAny(kind objects.Kind) bool {
	return c.g.objects.Any(c.try.up.name, kind, c.Tenant.Name)
}

// findOwn reads the upstream's list for what the tenant may see.
func (c *call) findOwn(ctx context.Context, p page) (listed, error) {
	until := time.Now().Add(listPatience)
	f := filter{
		sees:     func(id string) bool { return c.sees(c.try.up.name, id) },
		fetch:    func(cursor string) (listPage, error) { return c.fetchPage(ctx, p, cursor) },
		enough:   func(pages int) bool { return pages >= maxPages || time.Now().After(until) },
		backward: p.before != "",
	}
	return f.run(p.after+p.before, p.limit) // one of them is empty
}

// fetchPage reads one page of the upstream's list: a large one, since most of it is others'.
func (c *call) fetchPage(ctx context.Context, p page, cursor string) (listPage, error) {
	query := maps.Clone(c.query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(max(p.limit, 100)))
	if p.before != "" {
		query.Set("before", cursor)
	} else if cursor != "" {
		query.Set("after", cursor)
	}
	body, err := c.ask(ctx, http.MethodGet, c.at.Path, query)
	if err != nil {
		return listPage{}, err
	}
	if head.WellFormed(body) != nil {
		return listPage{}, errUnreadable
	}
	return parsePage(string(body))
}

func parsePage(body string) (listPage, error) {
	root := gjson.Parse(body)
	data := root.Get("data")
	if !data.IsArray() {
		return listPage{}, errUnreadable
	}
	out := listPage{more: root.Get("has_more").Bool()}
	data.ForEach(func(_, item gjson.Result) bool {
		out.items = append(out.items, listItem{item.Get("id").Str, item.Raw})
		return true
	})
	return out, nil
}

// ask sends a request of the gateway's own to the upstream, with the tenant's headers,
// and reads the answer.
func (c *call) ask(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.try.up.address.URL(path, c.realModel(), query).String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = c.upstreamHeader(c.r.Header)
	resp, err := c.try.up.roundTrip(c.g.transport, r)
	said := c.judge(resp, err)
	if err != nil && ctx.Err() != nil {
		said = upstreams.Abandoned // it was not waited for
	}
	c.tell(said)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := c.withheld(resp.StatusCode); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, errUnreadable
	case resp.StatusCode/100 != 2:
		return nil, &upstreamSaid{resp.StatusCode, resp.Header.Get("Content-Type"), body}
	}
	return body, nil
}

// listFailed answers when a list could not be read.
func (c *call) listFailed(err error) {
	if said, ok := errors.AsType[*upstreamSaid](err); ok {
		if said.contentType != "" {
			c.w.Header().Set("Content-Type", said.contentType)
		}
		if c.try.busy {
			showRetry(c.w.Header(), c.tries.comeBack)
		}
		c.w.WriteHeader(said.status)
		_, _ = c.w.Write(said.body)
		return // finish counts it
	}
	c.unanswered(err)
}

// json is the list as the tenant gets it.
func (l *listed) json() []byte {
	first := "null"
	last := "null"
	if n := len(l.items); n > 0 {
		first = quoted(l.items[0].id)
		last = quoted(l.items[n-1].id)
	}
	b := []byte(`{"object":"list","data":[`)
	for i, item := range l.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item.raw...)
	}
	b = append(b, `],"first_id":`+first+`,"last_id":`+last+`,"has_more":`...)
	return append(strconv.AppendBool(b, l.more), '}')
}

// keepShown records what an object that is shown has brought forth. It belongs to the object's
// owner.
func (c *call) keepShown(kind objects.Kind, id, raw string) error {
	e, ok := c.g.objects.Owner(objects.Key{Upstream: c.try.up.name, ID: id})
	if !ok {
		return nil // somebody deleted it a moment ago
	}
	_, err := c.keep(offspring(kind, raw), e.Owner)
	return err
}
