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

// prompt is what a body says to the model.
type prompt struct {
	texts []string
	frame int64 // tokens around them
	bare  bool  // the texts of embeddings have no frame
	old   bool  // the vocabulary is cl100k
	known bool  // there is nothing else in it
}

func (p *prompt) say(text string) {
	if text != "" {
		p.texts = append(p.texts, text)
	}
}

func (p *prompt) read(body string) {
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
	case v.Type == gjson.Number:
		p.frame++
	case v.IsArray():
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
			v.ForEach(func(_, call gjson.Result) bool {
				p.say(call.Get("function.name").Str)
				p.say(call.Get("function.arguments").Str)
				p.frame += perMessage
				return true
			})
		case "audio":
			p.known = p.known && v.Type == gjson.Null
		}
		return p.known
	})
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

// tools reads the functions that the model may call, in the words of chat or of responses.
func (p *prompt) tools(v gjson.Result) {
	if len(v.Array()) == 0 {
		return
	}
	p.frame += perTools
	v.ForEach(func(_, tool gjson.Result) bool {
		if tool.Get("type").Str != "function" {
			p.known = false // what a tool of the provider's own says is not known
			return false
		}
		if f := tool.Get("function"); f.IsObject() {
			tool = f
		}
		p.frame += perTool
		if p.old {
			p.frame += perOldTool - perTool
		}
		p.say(tool.Get("name").Str + ":" + strings.TrimSuffix(tool.Get("description").Str, "."))
		p.properties(tool.Get("parameters"))
		return true
	})
}

func (p *prompt) properties(schema gjson.Result) {
	properties := schema.Get("properties")
	if !properties.IsObject() || properties.Raw == "{}" {
		return
	}
	p.frame += perProperties
	properties.ForEach(func(key, v gjson.Result) bool {
		p.frame += perProperty
		p.say(key.Str + ":" + v.Get("type").String() + ":" + strings.TrimSuffix(v.Get("description").Str, "."))
		if choices := v.Get("enum"); choices.IsArray() {
			p.frame += perEnum
			choices.ForEach(func(_, choice gjson.Result) bool {
				p.frame += perChoice
				p.say(choice.String())
				return true
			})
		}
		p.properties(v)
		p.properties(v.Get("items"))
		return true
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
