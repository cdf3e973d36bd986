package streaming

import "bytes"

// Nature is what an answer is, whatever its label says.
type Nature uint8

// The natures of answers.
const (
	Plain   Nature = iota // JSON, as far as can be seen
	Events                // a stream of events
	Wrong                 // JSON of an error in place of an answer
	Foreign               // neither JSON nor events
	Empty                 // whole JSON without an answer
)

// Look tells the nature of an answer with a 2xx status from its beginning. One of which nothing but white space is there
// passes for [Plain]. The errors of some providers, and that an answer is empty, are known only if all of it is there.
func Look(beginning []byte) Nature {
	text := bytes.TrimLeft(bytes.TrimPrefix(beginning, byteOrderMark), " \t\r\n")
	switch {
	case len(text) == 0:
		return Plain
	case text[0] == '[': // as Google has its errors
		if element := bytes.TrimLeft(text[1:], " \t\r\n"); bytes.HasPrefix(element, []byte("{")) && Look(element) == Wrong {
			return Wrong
		}
		return Plain
	case text[0] == '{':
		var f finder
		f.feed(text)
		switch {
		case f.wrong():
			return Wrong
		case f.nothing():
			return Empty
		}
		return Plain
	}
	for _, field := range eventFields {
		if bytes.HasPrefix(text, field) {
			return Events
		}
	}
	return Foreign
}

// eventFields begin the lines of event streams, also those of comments.
var eventFields = [][]byte{[]byte("data:"), []byte("event:"), []byte("id:"), []byte("retry:"), []byte(":")}

// Preamble reports whether the answer of a stream has not begun: if nothing has come but comments, texts that are no JSON, or events such as a
// role or the usage of the prompt. Events in which a whole answer stands, as those of Responses do, are no preamble.
func Preamble(beginning []byte) bool {
	var scan Scanner
	var m Meter
	scan.Feed(bytes.TrimLeft(beginning, " \t\r\n"))
	for {
		ev, ok := scan.Next()
		if !ok {
			return true
		}
		switch m.Observe(ev.Name, ev.Data) {
		case KeepAlive, Opaque:
			if ev.Error != nil {
				return false
			}
		case Other:
			if m.deltas > 0 || m.Finished() || member(ev.Data, "response") != nil {
				return false
			}
		default:
			return false
		}
	}
}

// FirstError is the data of the error with which an event stream begins, before anything of its answer; nil if it begins otherwise. Of an
// answer that was begun and failed, as those of Responses tell, it is no error of the stream. The stream is empty if it ends, at the end of
// what is whole at the latest, before an answer began, or with nothing in it that can be read.
func FirstError(beginning []byte, whole bool) (failure []byte, empty bool) {
	var scan Scanner
	var m Meter
	scan.Feed(beginning)
	understood := false
	for ended := false; ; {
		ev, ok := scan.Next()
		if !ok && whole && !ended {
			ended = true
			ev, ok = scan.Flush()
		}
		if !ok {
			return nil, ended && (!understood || !m.begun())
		}
		is := m.Observe(ev.Name, ev.Data)
		understood = understood || is > Opaque
		switch {
		case m.Failed() && member(ev.Data, "response") == nil:
			return ev.Data, false
		case ev.Error != nil:
			return ev.Error, false
		case m.Failed(), m.done, m.deltas > 0:
			return nil, false
		case is == Final:
			return nil, true
		}
	}
}
