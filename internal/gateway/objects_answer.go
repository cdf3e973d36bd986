package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// errNotKept means that it could not be recorded whose an object is.
var errNotKept = errors.New("it cannot be kept whose the object is")

// undoPatience is how long it may take to undo what could not be recorded.
const undoPatience = 10 * time.Second

// made is an object that an answer shows.
type made struct {
	kind objects.Kind
	id   string
	// recalled items are sent back by their id even if they are not stored.
	recalled bool
	size     int64 // as of an objects.Entry, if the answer tells
}

// mostShown bounds how many objects are recorded of one answer. Providers show a hundred in a page, and
// responses have some dozens of items. Further ones stay hidden from everybody.
const mostShown = 1000

// offspring lists what an object of a kind has brought forth, as far as it shows. It keeps nothing of raw.
func offspring(kind objects.Kind, raw string) []made {
	var list []made
	add := func(kind objects.Kind, v gjson.Result) {
		if v.Type == gjson.String && objects.IsID(v.Str) && len(list) < mostShown {
			list = append(list, made{kind: kind, id: strings.Clone(v.Str)})
		}
	}
	root := gjson.Parse(raw)
	switch kind {
	case objects.Batch:
		add(objects.File, root.Get("output_file_id"))
		add(objects.File, root.Get("error_file_id"))
	case objects.Job:
		add(objects.Model, root.Get("fine_tuned_model"))
		root.Get("result_files").ForEach(func(_, v gjson.Result) bool { add(objects.File, v); return true })
	case objects.Model: // a job's checkpoints
		root.Get("data.#.fine_tuned_model_checkpoint").ForEach(func(_, v gjson.Result) bool { add(objects.Model, v); return true })
	case objects.Upload:
		add(objects.File, root.Get("file.id"))
		for i := range list {
			list[i].size = root.Get("file.bytes").Int()
		}
	case objects.Response:
		root.Get("output").ForEach(func(_, item gjson.Result) bool {
			n := len(list)
			add(objects.Item, item.Get("id"))
			add(objects.Container, item.Get("container_id"))
			for i := range list[n:] {
				list[n+i].size = tokens.Weigh([]byte(item.Raw))/tokens.Scale + 1
				list[n+i].recalled = list[n+i].kind == objects.Container || head.LooksUp(item.Get("type").Str)
			}
			return true
		})
	}
	return list
}

// keep records objects that are not known yet. It returns those that it could not record.
func (c *call) keep(list []made, owner string) ([]made, error) {
	for i, m := range list {
		key := objects.Key{Upstream: c.try.up.name, ID: m.id}
		if _, known := c.g.objects.Owner(key); known {
			continue
		}
		// Not with the client's context: the object is there even if the client has gone.
		entry := objects.Entry{Kind: m.kind, Owner: owner, Size: m.size}
		if m.kind == objects.BatchFile {
			entry.Model = c.batch.dearest
			entry.Input = c.batch.size.input
			entry.Output = c.batch.size.output
		}
		if err := c.g.objects.Own(context.WithoutCancel(c.r.Context()), key, entry); err != nil {
			return list[i:], errors.Join(errNotKept, err)
		}
	}
	return nil, nil
}

// objectAnswered takes over an answer of 2xx to a route to objects. What it shows is recorded
// before the client can know of it.
func (c *call) objectAnswered(resp *http.Response) error {
	if c.route.Forgets {
		key := objects.Key{Upstream: c.try.up.name, ID: c.at.IDs[0]}
		if err := c.g.objects.Forget(key); err != nil {
			c.Failure = err // it may come back after a restart, and is gone at the upstream
		}
		c.collect(key.ID, "", noUsage, false)
	}
	resp.Body = newIdleBody(resp.Body, c.world.Snapshot.Config().Timeouts.StreamIdle, c.tries.interrupt)
	if c.route.Shows != 0 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		err = errors.Join(err, resp.Body.Close())
		if err != nil {
			return err
		}
		if len(body) > maxAnswer {
			return errUnreadable
		}
		if err := c.keepAnswer(string(body)); err != nil {
			return err
		}
		if len(c.at.IDs) > 0 {
			c.seen(c.at.IDs[0], gjson.ParseBytes(body))
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		resp.ContentLength = int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	resp.Body = &objectBody{resp.Body, c}
	return nil
}

// keepAnswer records what an answer shows. An object that cannot be recorded is removed again,
// since nobody could ever see it.
func (c *call) keepAnswer(body string) error {
	owner := c.Tenant.Name
	if len(c.at.IDs) > 0 {
		e, ok := c.g.objects.Owner(objects.Key{Upstream: c.try.up.name, ID: c.at.IDs[0]})
		if ok {
			owner = e.Owner
		}
	}
	list := offspring(c.route.Shows, body)
	if c.route.Makes {
		id := gjson.Get(body, "id")
		if id.Type != gjson.String || !objects.IsID(id.Str) {
			return errUnreadable
		}
		// If the upstream reuses ids, it does not matter whose it was before.
		_ = c.g.objects.Forget(objects.Key{Upstream: c.try.up.name, ID: id.Str})
		kind := c.route.Shows
		if kind == objects.File && isBatch(c.head.Purpose) {
			kind = objects.BatchFile
		}
		own := made{kind: kind, id: id.Str}
		if kind == objects.File {
			own.size = gjson.Get(body, "bytes").Int()
		}
		list = append([]made{own}, list...)
	}
	if c.createsBatch() && !c.oweBatch(list[0].id) {
		c.undo(list)
		return errors.Join(errNotKept, c.Failure)
	}
	lost, err := c.keep(list, owner)
	if err != nil && (c.route.Makes || c.route.Shows == objects.Upload) { // else it was made by another call
		c.undo(lost)
	}
	return err
}

// undo removes from the upstream what this call made, as far as possible.
func (c *call) undo(list []made) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), undoPatience)
	defer cancel()
	for _, m := range list {
		method := http.MethodDelete
		path := ""
		switch m.kind {
		case objects.File, objects.BatchFile:
			path = "/files/" + m.id
		case objects.VectorStore:
			path = "/vector_stores/" + m.id
		case objects.Batch:
			method = http.MethodPost
			path = "/batches/" + m.id + "/cancel"
		case objects.Job:
			method = http.MethodPost
			path = "/fine_tuning/jobs/" + m.id + "/cancel"
		case objects.Upload:
			method = http.MethodPost
			path = "/uploads/" + m.id + "/cancel"
		case objects.FileBatch:
			method = http.MethodPost
			path = c.at.Path + "/" + m.id + "/cancel"
		default: // a part goes with its upload
			continue
		}
		if _, err := c.ask(ctx, method, path, nil); err != nil {
			c.g.log.Error("an object that nobody owns is left at the upstream", "upstream", c.try.up.name, "id", m.id, "error", err.Error())
		}
	}
}

// objectBody ends the lease when an answer has come whole, or breaks off.
type objectBody struct {
	io.ReadCloser
	c *call
}

// Read implements io.Reader.
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
		b.c.Fail("truncated", noUsage)
	}
	return n, err
}
