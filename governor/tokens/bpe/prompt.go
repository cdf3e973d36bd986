package bpe

import (
	"strings"

	"github.com/tidwall/gjson"
)

// What frames messages and tools, in tokens, by OpenAI's cookbook.
const (
	perMessage = 3 // start, end and a line break; the role is one more
	perAnswer  = 3 // an answer is begun
	perName    = 1

	perTools      = 12
	perTool       = 7
	perOldTool    = 10 // with the older vocabulary
	perProperties = 3
	perProperty   = 3
	perEnum       = -3
	perChoice     = 3
)

const (
	// maxLeftOut is how much of a body may be parameters and names, which the model does not
	// read, and a quarter of a larger one.
	maxLeftOut = 256
	// maxLooks and maxNesting bound the work beside the bytes that are counted: each text
	// costs something, however short, and a schema is read once a level.
	maxLooks, maxNesting = 2048, 8
)

// prompt is what a body says to the model.
type prompt struct {
	texts []string
	frame int64 // tokens around them
	bare  bool  // the texts of embeddings have no frame
	old   bool  // the vocabulary is cl100k
	known bool  // there is nothing else in it
	least bool  // what a model may or may not be shown is left out
	left  int   // what may be passed over yet, in bytes
	looks int
}

func (p *prompt) say(text string) {
	p.look()
	if text != "" {
		p.texts = append(p.texts, text)
	}
}

// look counts what is looked at, which may be empty.
func (p *prompt) look() {
	p.looks++
	p.known = p.known && p.looks <= maxLooks
}

// leave passes over a value that has no rule here.
func (p *prompt) leave(v gjson.Result) {
	p.left -= len(v.Raw)
	p.known = p.known && p.left >= 0
}

func (p *prompt) read(body string) {
	p.left = max(maxLeftOut, len(body)/4)
	gjson.Parse(body).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "messages":
			v.ForEach(func(_, m gjson.Result) bool { p.message(m); return p.known })
			p.frame += perAnswer
		case "input":
			p.input(v)
		case "prompt":
			p.plain(v)
		case "instructions":
			if v.Type == gjson.String {
				p.say(v.Str)
				p.frame += perMessage + 1
			}
		case "tools":
			p.tools(v)
		case "response_format", "text":
			p.schema(v)
		case "previous_response_id", "conversation", "functions": // lies elsewhere, or is of old
			p.known = p.known && v.Type == gjson.Null
		default:
			p.leave(v)
		}
		return p.known
	})
}

// input reads what responses and embeddings call it.
func (p *prompt) input(v gjson.Result) {
	first := gjson.Result{}
	v.ForEach(func(_, item gjson.Result) bool { first = item; return false })
	if p.bare || first.Type == gjson.Number {
		p.plain(v)
		return
	}
	p.frame += perAnswer
	if v.Type == gjson.String {
		p.say(v.Str)
		p.frame += perMessage + 1
		return
	}
	v.ForEach(func(_, item gjson.Result) bool { p.item(item); return p.known })
}

// plain reads a text, several, or tokens.
func (p *prompt) plain(v gjson.Result) {
	switch {
	case v.Type == gjson.String:
		p.say(v.Str)
	case v.IsArray() && !strings.ContainsAny(v.Raw[1:], `"[{`): // of tokens
		p.look()
		p.frame += int64(strings.Count(v.Raw, ",") + 1)
	case v.IsArray():
		p.look()
		v.ForEach(func(_, item gjson.Result) bool { p.plain(item); return p.known })
	default:
		p.known = false
	}
}

// item reads one item of a responses input.
func (p *prompt) item(v gjson.Result) {
	switch kind := v.Get("type").Str; kind {
	case "", "message":
		p.message(v)
	case "function_call":
		p.say(v.Get("name").Str)
		p.say(v.Get("arguments").Str)
		p.frame += perMessage + 1
	case "function_call_output":
		p.content(v.Get("output"))
		p.frame += perMessage + 1
	default:
		p.known = false
	}
}

func (p *prompt) message(m gjson.Result) {
	p.look()
	p.frame += perMessage
	m.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "role":
			p.frame++ // each of them is one token
		case "name":
			p.say(v.Str)
			p.frame += perName
		case "content":
			p.content(v)
		case "tool_calls":
			v.ForEach(func(_, call gjson.Result) bool { p.call(call); return p.known })
		case "refusal":
			p.say(v.Str)
		case "audio", "function_call": // the latter is of old
			p.known = p.known && v.Type == gjson.Null
		default:
			p.leave(v)
		}
		return p.known
	})
}

func (p *prompt) call(v gjson.Result) {
	if kind := v.Get("type"); kind.Exists() && kind.Str != "function" {
		p.known = false
		return
	}
	p.say(v.Get("function.name").Str)
	p.say(v.Get("function.arguments").Str)
	p.frame += perMessage
}

// content reads a text, or its parts.
func (p *prompt) content(v gjson.Result) {
	if v.Type != gjson.JSON { // a text, or null beside tool calls
		p.say(v.Str)
		return
	}
	v.ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "text", "input_text", "output_text":
			p.say(part.Get("text").Str)
		case "refusal":
			p.say(part.Get("refusal").Str)
		default:
			p.known = false
		}
		return p.known
	})
}

// schema reads the shape that the answer is to have.
func (p *prompt) schema(v gjson.Result) {
	for _, path := range []string{"json_schema.schema", "format.schema"} {
		if s := v.Get(path); s.IsObject() {
			p.say(s.Raw)
		}
	}
}
