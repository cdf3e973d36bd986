package gateway

import (
	"bytes"
	"errors"
	"io"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/streaming"
)

// shows reports whether the answer to a call of inference may show something to which later calls
// can refer.
func (c *call) shows() bool { return c.route.path == responsesPath || c.head.audio }

// noteSound records the audio in a chat answer, or in a chunk of one. part is "message" or "delta".
func (c *call) noteSound(answer gjson.Result, part string) {
	answer.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		if id := choice.Get(part + ".audio.id"); id.Type == gjson.String && isID(id.Str) {
			c.noteAll([]made{{kind: objects.Item, id: id.Str, recalled: true}})
		}
		return true
	})
}

// note records a response, or a part of it that an event shows, before the client can know of it.
// It is written to disk a moment later: what a crash loses is only hidden.
func (c *call) note(response string) {
	list := offspring(objects.Response, response)
	if id := gjson.Get(response, "id"); id.Type == gjson.String && isID(id.Str) {
		list = append(list, made{kind: objects.Response, id: id.Str, size: responseSize(gjson.Get(response, "usage"))})
	}
	c.noteAll(list)
	c.oweBackground(gjson.Parse(response))
}

func (c *call) noteAll(list []made) {
	for _, m := range list {
		if c.head.unstored && !m.recalled { // nobody can ask for it later
			continue
		}
		key := objects.Key{Upstream: c.try.up.name, ID: m.id}
		_, known := c.g.objects.Owner(key)
		switch {
		case known && m.size > 0:
			c.g.objects.Resize(key, m.size)
		case known:
		case m.kind == objects.Response && m.size == 0: // it has only begun, and may never say what it took
			c.g.objects.OwnSoon(key, objects.Entry{Kind: m.kind, Owner: c.tenant.Name, Size: c.req.Input + c.req.Output})
		default:
			c.g.objects.OwnSoon(key, objects.Entry{Kind: m.kind, Owner: c.tenant.Name, Size: m.size})
		}
	}
}

// responseSize is what a response adds to the prompt of one that continues it, if it tells.
func responseSize(usage gjson.Result) int64 {
	u, _ := streaming.ReadUsage([]byte(usage.Raw))
	return u.Input + u.Output
}

// notedAnswer is a plain answer that is passed on once all of it is here and noted.
type notedAnswer struct {
	io.ReadCloser
	c    *call
	text *bytes.Reader
	err  error // behind the text
}

// Read implements io.Reader.
func (a *notedAnswer) Read(p []byte) (int, error) {
	if a.text == nil {
		// What is larger than any response is passed on as it comes, without being noted.
		text, err := io.ReadAll(io.LimitReader(a.ReadCloser, maxAnswer))
		a.text, a.err = bytes.NewReader(text), err
		if a.c.route.path == responsesPath {
			a.c.note(string(text))
		} else {
			a.c.noteSound(gjson.ParseBytes(text), "message")
		}
	}
	if a.text.Len() > 0 {
		return a.text.Read(p)
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.ReadCloser.Read(p)
}

// notedEvents is a streamed answer whose events are noted as they come. Its reader passes only
// whole events on, so nobody sees a part of one that is not noted.
type notedEvents struct {
	io.ReadCloser
	c    *call
	scan streaming.Scanner
}

// Read implements io.Reader.
func (e *notedEvents) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if n > 0 {
		e.scan.Feed(p[:n])
		for ev, ok := e.scan.Next(); ok; ev, ok = e.scan.Next() {
			e.note(ev.Data)
		}
	}
	if errors.Is(err, io.EOF) { // an event without its blank line
		if ev, ok := e.scan.Flush(); ok {
			e.note(ev.Data)
		}
	}
	return n, err
}

// note reads an event. Most are deltas, which show no new id.
func (e *notedEvents) note(data []byte) {
	if e.c.route.path != responsesPath {
		e.c.noteSound(gjson.ParseBytes(data), "delta")
		return
	}
	head := data[:min(len(data), 80)]
	if len(data) == 0 || bytes.Contains(head, []byte(`.delta"`)) {
		return
	}
	event := gjson.ParseBytes(data)
	if r := event.Get("response"); r.IsObject() {
		e.c.note(r.Raw)
	}
	if item := event.Get("item"); item.IsObject() {
		e.c.noteAll(offspring(objects.Response, `{"output":[`+item.Raw+`]}`))
	}
}
