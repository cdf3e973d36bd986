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

// Opening is what the beginning of an event stream tells of its answer.
type Opening struct {
	// Preamble says that the answer has not begun: nothing has come but comments, texts that are no JSON, or events such as a role or the
	// usage of the prompt. Events in which a whole answer stands, as those of Responses do, are no preamble.
	Preamble bool
	// Failure is the data of the error with which the stream begins, before anything of its answer; nil if it begins otherwise. Of an answer
	// that was begun and failed, as those of Responses tell, it is no error of the stream.
	Failure []byte
	// Empty says that the stream ends before an answer began, or with nothing in it that can be read.
	Empty bool
}

// Open reads the beginning of an event stream. If it has ended, nothing comes behind that.
func Open(beginning []byte, ended bool) Opening {
	o := Opening{Preamble: true}
	var scan Scanner
	var m Meter
	scan.Feed(bytes.TrimLeft(beginning, " \t\r\n"))
	understood := false
	for flushed := false; ; {
		ev, ok := scan.Next()
		if !ok && ended && !flushed {
			flushed = true
			ev, ok = scan.Flush()
		}
		if !ok {
			o.Empty = flushed && (!understood || !m.begun())
			return o
		}
		is := m.Observe(ev.Name, ev.Data)
		understood = understood || is > Opaque
		ofAnswer := member(ev.Data, "response") != nil
		begun := is > Other || ofAnswer || ev.Error != nil || m.deltas > 0 || m.Finished()
		o.Preamble = o.Preamble && !begun
		switch {
		case m.Failed() && !ofAnswer:
			o.Failure = ev.Data
			return o
		case ev.Error != nil:
			o.Failure = ev.Error
			return o
		case m.Failed(), m.done, m.deltas > 0:
			return o
		case is == Final:
			o.Empty = true
			return o
		}
	}
}
