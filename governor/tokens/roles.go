package tokens

import (
	"bytes"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// role is what the value of a member is to the size of a prompt.
type role uint8

const (
	roleNone    role = iota
	roleTop          // what is read like the body
	roleList         // of items
	roleItem         // one item
	roleOutput       // an item, or a list of items
	roleTools        // the tools that a model may use
	roleStored       // an object by which the provider finds more
	roleServers      // a list by which the provider finds more
	roleType         // what an item or a tool is
	roleFile         // the object with a file, or its address
	roleAddress      // of a file, or the file as a data URL
	roleDataURL      // a file as a data URL
	roleData         // a file
	roleFileID       // the id of a file
	roleSource       // what the object with a file has
	roleMedia        // which type of media that is
)

// longestName bounds the keys, the types and the types of media that mean something, with quotes and each letter written as an escape.
const longestName = len(`""`) + len("image_generation_call")*len(`\u0000`)

// roleOf is the role of the member with a key at a place.
func roleOf(in place, key []byte) role {
	switch in {
	case inTop:
		return roleInTop(key)
	case inItem:
		return roleInItem(key)
	case inFile:
		return roleInFile(key)
	case inTool:
		switch string(key) {
		case "type":
			return roleType
		case "tools": // of a namespace
			return roleTools
		}
	}
	return roleNone
}

func roleInTop(key []byte) role {
	switch string(key) {
	case "messages", "input":
		return roleList
	case "item":
		return roleItem
	case "response", "extra_body": // some servers read the latter as if it were the body
		return roleTop
	case "tools":
		return roleTools
	case "prompt", "web_search_options": // an object is a stored prompt
		return roleStored
	case "mcp_servers", "plugins":
		return roleServers
	}
	return roleNone
}

func roleInItem(key []byte) role {
	switch string(key) {
	case "type":
		return roleType
	case "content":
		return roleList
	case "output":
		return roleOutput
	case "image_url", "video_url", "audio_url", "input_audio", "file", "source":
		return roleFile
	case "file_url":
		return roleAddress
	case "file_data":
		return roleDataURL
	case "result":
		return roleData
	case "file_id":
		return roleFileID
	}
	return roleNone
}

func roleInFile(key []byte) role {
	switch string(key) {
	case "type":
		return roleSource
	case "media_type":
		return roleMedia
	case "url", "file_url", "image_url":
		return roleAddress
	case "file_data":
		return roleDataURL
	case "data", "result":
		return roleData
	case "file_id":
		return roleFileID
	}
	return roleNone
}

// member is the place of a member's value. What a scalar says is noted.
func (m *Measurer) member(is role, t jsonscan.Token) place {
	isObject := t.Kind == jsonscan.ObjectStart
	switch is {
	case roleTop:
		return inTop
	case roleList:
		return inList
	case roleItem:
		return inItem
	case roleTools:
		return inTools
	case roleOutput:
		if isObject {
			return inItem
		}
		return inList
	case roleStored:
		if isObject {
			m.out.Unseen++
		}
	case roleServers:
		if t.Kind == jsonscan.ArrayStart {
			m.out.Unseen++
		}
	case roleFile:
		if t.Kind != jsonscan.String {
			return inFile
		}
		m.text(roleAddress, t)
	default:
		if t.Kind == jsonscan.String {
			m.text(is, t)
		}
	}
	return nowhere
}

// text notes what a string says of the item that it belongs to.
func (m *Measurer) text(is role, t jsonscan.Token) {
	if is == roleNone {
		return
	}
	p := &m.parts[len(m.parts)-1]
	switch is {
	case roleType:
		p.types++
		p.kind = Text
		p.tool = true
		if t.End-t.Start <= longestName {
			kind := m.plain(t)
			p.kind = kindOf[string(kind)]
			p.tool = !ownTools[string(kind)]
		}
	case roleSource:
		p.plain = p.plain || t.End-t.Start <= longestName && string(m.plain(t)) == "text"
	case roleMedia:
		p.text = p.text || t.End-t.Start <= longestName && bytes.HasPrefix(m.plain(t), []byte("text/"))
	case roleFileID:
		m.ids = append(m.ids, Span{Start: t.Start, End: t.End})
	default:
		m.file(is, p, t)
	}
}

// file notes a string that is a file or its address. A file is not weighed before it is known what of.
func (m *Measurer) file(is role, p *part, t jsonscan.Token) {
	text := m.body[t.Start+1 : t.End-1]
	if is != roleData {
		text = dataOf(text)
	}
	if jsonscan.IsBase64(text) {
		m.files = append(m.files, Span{Start: t.Start, End: t.End})
		m.weigh(t.Start)
		m.at = t.End
		return
	}
	if is == roleAddress {
		p.links++
	}
}

// ownTools are the types of tools that the caller runs, so that what they find comes in a further
// call, and namespaces of those. All others are run by the provider.
var ownTools = map[string]bool{"function": true, "custom": true, "local_shell": true, "shell": true, "apply_patch": true, "namespace": true}

// kindOf are the types of parts that a provider does not read as text.
var kindOf = map[string]Kind{
	"image_url": Image, "input_image": Image, "image": Image, "computer_screenshot": Image, "image_generation_call": Image,
	"input_audio": Sound,
	"file":        Document, "input_file": Document, "document": Document,
}
