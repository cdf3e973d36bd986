package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/streaming"
)

// shows reports whether the answer to a call of inference may show something to which later calls
// can refer.
func (c *call) shows() bool { return c.route.Stores || c.head.Audio }

// noteSound records the audio in a chat answer, or in a chunk of one. part is "message" or "delta".
func (c *call) noteSound(answer gjson.Result, part string) {
	answer.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		if id := choice.Get(part + ".audio.id"); id.Type == gjson.String && objects.IsID(id.Str) {
			c.noteAll([]made{{kind: objects.Item, id: strings.Clone(id.Str), recalled: true}})
		}
		return true
	})
}

// note records a response, or a part of it that an event shows, before the client can know of it.
// It is written to disk a moment later: what a crash loses is only hidden.
func (c *call) note(response string) {
	if id := gjson.Get(response, "id"); id.Type == gjson.String && objects.IsID(id.Str) {
		size := responseSize(gjson.Get(response, "usage"))
		c.noteAll([]made{{kind: objects.Response, id: strings.Clone(id.Str), size: size}})
	}
	c.noteAll(offspring(objects.Response, response))
	c.oweBackground(gjson.Parse(response))
}

func (c *call) noteAll(list []made) {
	for _, m := range list {
		if c.head.Unstored && !m.recalled { // nobody can ask for it later
			continue
		}
		key := objects.Key{Upstream: c.try.up.name, ID: m.id}
		if _, known := c.g.objects.Owner(key); known {
			if m.size > 0 {
				c.g.objects.Resize(key, m.size)
			}
			continue
		}
		if c.answer.noted == mostShown {
			return
		}
		c.answer.noted++
		size := m.size
		if m.kind == objects.Response && size == 0 { // it has only begun, and may never say what it took
			size = c.Request.Input + c.Request.Output
		}
		c.g.objects.OwnSoon(key, objects.Entry{Kind: m.kind, Owner: c.Tenant.Name, Size: size})
	}
}

// responseSize is what a response adds to the prompt of one that continues it, if it tells.
func responseSize(usage gjson.Result) int64 {
	u, _ := streaming.ReadUsage([]byte(usage.Raw))
	return u.Input + u.Output
}

// mostNoted bounds how much of a plain answer is held so that it is noted before the client sees it: more
// than a response with several pictures has.
const mostNoted = 16 << 20

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
		// What is larger than any response is passed on as it comes, without being noted. It is metered
		// like any other: that is done below.
		text, err := io.ReadAll(io.LimitReader(a.ReadCloser, mostNoted))
		a.text = bytes.NewReader(text)
		a.err = err
		switch {
		case len(text) == mostNoted:
		case a.c.route.Stores:
			a.c.note(string(text))
		default:
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
	if !e.c.route.Stores {
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
