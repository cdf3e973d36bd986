package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/streaming"
)

// undoPatience is how long it may take to undo objects that could not be recorded.
const undoPatience = 10 * time.Second

// keyOf names an object at the upstream of the present try.
func (c *call) keyOf(id string) objects.Key { return objects.Key{Upstream: c.try.up.Name, ID: id} }

// objectAnswered takes over an answer of 2xx to a route to objects. What it shows is recorded
// before the client can know of it.
func (c *call) objectAnswered(resp *http.Response) error {
	if c.route.Forgets {
		key := c.keyOf(c.at.IDs[0])
		if err := c.g.objects.Forget(key); err != nil {
			c.Failure = err // it may come back after a restart, and is gone at the upstream
		}
		c.stored.Collect(key, stored.End{Left: true})
	}
	resp.Body = relay.Idle(resp.Body, c.world.Snapshot.Config().Timeouts.StreamIdle, c.tries.interrupt)
	if c.route.Shows != 0 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		err = errors.Join(err, resp.Body.Close())
		if err != nil {
			return err
		}
		if len(body) > maxAnswer {
			return stored.ErrUnreadable
		}
		if err := c.keepAnswer(string(body)); err != nil {
			return err
		}
		if len(c.at.IDs) > 0 {
			c.stored.Seen(c.keyOf(c.at.IDs[0]), gjson.ParseBytes(body))
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		resp.ContentLength = int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	resp.Body = &objectBody{resp.Body, c}
	return nil
}

// keepAnswer records the objects that an answer shows. One that cannot be recorded is removed again,
// since nobody could ever see it.
func (c *call) keepAnswer(body string) error {
	owner := c.Tenant.Name
	if len(c.at.IDs) > 0 {
		if e, ok := c.g.objects.Owner(c.keyOf(c.at.IDs[0])); ok {
			owner = e.Owner
		}
	}
	list := stored.Offspring(c.route.Shows, body)
	if c.route.Makes {
		kind := c.route.Shows
		if kind == objects.File && stored.IsBatch(c.head.Purpose) {
			kind = objects.BatchFile
		}
		made, ok := stored.Made(kind, body)
		if !ok {
			return stored.ErrUnreadable
		}
		// If the upstream reuses ids, it does not matter whose it was before.
		_ = c.g.objects.Forget(c.keyOf(made.ID))
		list = append([]stored.Object{made}, list...)
	}
	if c.createsBatch() && !c.stored.OweBatch(c.r.Context(), c.keyOf(list[0].ID)) {
		c.undo(list)
		return errors.Join(stored.ErrNotKept, c.Failure)
	}
	lost, err := c.stored.Keep(c.r.Context(), c.try.up.Name, list, owner)
	if err != nil && (c.route.Makes || c.route.Shows == objects.Upload) { // else it was made by another call
		c.undo(lost)
	}
	return err
}

// undo removes from the upstream the objects that this call made, as far as possible.
func (c *call) undo(list []stored.Object) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), undoPatience)
	defer cancel()
	for _, o := range list {
		method, path, ok := o.Undo(c.at.Path)
		if !ok {
			continue
		}
		if _, err := c.ask(ctx, method, path, nil); err != nil {
			c.g.log.Error("an object that nobody owns is left at the upstream", "upstream", c.try.up.Name, "id", o.ID, "error", err.Error())
		}
	}
}

// shows reports whether the answer to a call of inference may show objects to which later calls can refer.
func (c *call) shows() bool { return c.route.Stores || c.head.Audio }

// watcher records the objects that an answer to a call of inference shows, before the caller can see it.
type watcher struct{ c *call }

// Answer implements stored.Watcher.
func (w watcher) Answer(text []byte) {
	if w.c.route.Stores {
		w.response(string(text))
		return
	}
	w.record(stored.Sounds(gjson.ParseBytes(text), "message"))
}

// Event implements stored.Watcher. Most events are deltas, which show no new id.
func (w watcher) Event(data []byte) {
	if !w.c.route.Stores {
		w.record(stored.Sounds(gjson.ParseBytes(data), "delta"))
		return
	}
	if len(data) == 0 || bytes.Contains(data[:min(len(data), 80)], []byte(`.delta"`)) {
		return
	}
	event := gjson.ParseBytes(data)
	if r := event.Get("response"); r.IsObject() {
		w.response(r.Raw)
	}
	if item := event.Get("item"); item.IsObject() {
		w.record(stored.Offspring(objects.Response, `{"output":[`+item.Raw+`]}`))
	}
}

// response records a response, or the part of it that an event shows, with its items.
func (w watcher) response(raw string) {
	c := w.c
	if r, ok := stored.Response(raw); ok {
		w.record([]stored.Object{r})
	}
	w.record(stored.Offspring(objects.Response, raw))
	if c.head.Background {
		c.stored.OweResponse(c.r.Context(), c.try.up.Name, gjson.Parse(raw))
	}
}

func (w watcher) record(list []stored.Object) {
	w.c.stored.Record(w.c.try.up.Name, list, w.c.head.Unstored)
}

// objectBody ends the lease when an answer has come whole, or breaks off.
type objectBody struct {
	io.ReadCloser
	c *call
}

func (b *objectBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.c.End(telemetry.OK, "", noUsage)
	case b.c.Gone(): // finish sees to it
	case b.c.Cut():
		b.c.Failure = b.c.Why()
		b.c.End(telemetry.Failed, b.c.CutOff().Code, noUsage)
	case errors.Is(err, streaming.ErrIdle):
		b.c.Failure = err
		b.c.Fail(admission.ReasonIdle, noUsage)
	default:
		b.c.Failure = err
		b.c.Fail(admission.ReasonTruncated, noUsage)
	}
	return n, err
}
