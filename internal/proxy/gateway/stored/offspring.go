package stored

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/streaming"
)

// Object is an object that an answer shows.
type Object struct {
	Kind objects.Kind
	ID   string
	Size int64 // as of an objects.Entry, if the answer tells
	// recalled items are sent back by their id even if they are not stored.
	recalled bool
}

// mostShown bounds how many objects are recorded of one answer. Providers show a hundred in a page, and
// responses have some dozens of items. Further ones stay hidden from everybody.
const mostShown = 1000

// Offspring lists the objects that an object of a kind has brought forth, as far as it shows. It keeps nothing
// of raw.
func Offspring(kind objects.Kind, raw string) []Object {
	var list []Object
	add := func(kind objects.Kind, v gjson.Result) {
		if v.Type == gjson.String && objects.IsID(v.Str) && len(list) < mostShown {
			list = append(list, Object{Kind: kind, ID: strings.Clone(v.Str)})
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
			list[i].Size = root.Get("file.bytes").Int()
		}
	case objects.Response:
		root.Get("output").ForEach(func(_, item gjson.Result) bool {
			n := len(list)
			add(objects.Item, item.Get("id"))
			add(objects.Container, item.Get("container_id"))
			for i := range list[n:] {
				list[n+i].Size = tokens.Weigh([]byte(item.Raw))/tokens.Scale + 1
				list[n+i].recalled = list[n+i].Kind == objects.Container || head.LooksUp(item.Get("type").Str)
			}
			return true
		})
	}
	return list
}

// Made is the object that an answer to a call shows, which made it. ok is false if there is none.
func Made(kind objects.Kind, body string) (made Object, ok bool) {
	id := gjson.Get(body, "id")
	if id.Type != gjson.String || !objects.IsID(id.Str) {
		return Object{}, false
	}
	made = Object{Kind: kind, ID: strings.Clone(id.Str)}
	if kind == objects.File {
		made.Size = gjson.Get(body, "bytes").Int()
	}
	return made, true
}

// Response is a response as an answer or an event shows it, with its size if it tells.
func Response(raw string) (response Object, ok bool) {
	id := gjson.Get(raw, "id")
	if id.Type != gjson.String || !objects.IsID(id.Str) {
		return Object{}, false
	}
	// A response that continues this one has all of that in its prompt.
	u, _ := streaming.ReadUsage([]byte(gjson.Get(raw, "usage").Raw))
	return Object{Kind: objects.Response, ID: strings.Clone(id.Str), Size: u.Input + u.Output}, true
}

// Sounds lists the audio in a chat answer, or in a chunk of one. part is "message" or "delta".
func Sounds(answer gjson.Result, part string) []Object {
	var list []Object
	answer.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		if id := choice.Get(part + ".audio.id"); id.Type == gjson.String && objects.IsID(id.Str) {
			list = append(list, Object{Kind: objects.Item, ID: strings.Clone(id.Str), recalled: true})
		}
		return true
	})
	return list
}
