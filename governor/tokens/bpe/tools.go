package bpe

import (
	"strings"

	"github.com/tidwall/gjson"
)

// tools reads the functions that the model may call, in the words of chat or of responses.
func (p *prompt) tools(v gjson.Result) {
	first := true
	v.ForEach(func(_, tool gjson.Result) bool {
		if first {
			first = false
			p.frame = p.frame + perTools
		}
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
		p.function(tool)
		return p.known
	})
}

func (p *prompt) function(v gjson.Result) {
	name := ""
	description := ""
	v.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "name":
			name = v.Str
		case "description":
			description = v.Str
		case "parameters":
			p.property("", v, 0)
		default:
			p.leave(v)
		}
		return p.known
	})
	p.say(name + ":" + strings.TrimSuffix(description, "."))
}

// property reads a schema at a depth, in one pass: of a property, if it has a name.
func (p *prompt) property(name string, schema gjson.Result, depth int) {
	if depth > maxNesting {
		p.known = false
		return
	}
	kind := ""
	description := ""
	schema.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "type":
			kind = v.String()
		case "description":
			description = v.Str
		case "enum":
			p.choices(v)
		case "properties":
			p.properties(v, depth)
		case "items":
			p.property("", v, depth+1)
		case "required": // names again
		default: // such as a default, or other shapes
			if p.least {
				p.leave(v)
			} else {
				p.say(v.Raw)
			}
		}
		return p.known
	})
	if name != "" {
		p.frame += perProperty
		p.say(name + ":" + kind + ":" + strings.TrimSuffix(description, "."))
	}
}

func (p *prompt) properties(v gjson.Result, depth int) {
	if !v.IsObject() || v.Raw == "{}" {
		return
	}
	p.frame += perProperties
	v.ForEach(func(key, v gjson.Result) bool { p.property(key.Str, v, depth+1); return p.known })
}

func (p *prompt) choices(v gjson.Result) {
	if !v.IsArray() {
		return
	}
	p.frame += perEnum
	v.ForEach(func(_, choice gjson.Result) bool {
		p.frame += perChoice
		p.say(choice.String())
		return p.known
	})
}
