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
)

// Look tells the nature of an answer with a 2xx status from its beginning. One of which nothing but white space is there
// passes for [Plain]. The errors of some providers are known only if all of the answer is there.
func Look(beginning []byte) Nature {
	text := bytes.TrimLeft(bytes.TrimPrefix(beginning, byteOrderMark), " \t\r\n")
	switch {
	case len(text) == 0, text[0] == '[':
		return Plain
	case text[0] == '{':
		var f finder
		f.feed(text)
		if f.wrong() {
			return Wrong
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
