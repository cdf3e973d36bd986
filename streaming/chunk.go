package streaming

// chunk holds the top-level members of an event that matter, as written.
type chunk struct {
	kind                []byte // of "type", without quotes; else the name of the event
	object              []byte // without quotes
	choices             []byte
	usage, choiceUsage  []byte // choiceUsage: of the last choice that has one
	err                 []byte
	response, message   []byte // envelopes of Responses and of Anthropic
	groq, timings       []byte // "x_groq"; llama.cpp's
	delta, block, audio []byte
}

// read reports whether the chunk is whole.
func (ch *chunk) read(data []byte) bool {
	c, ok := open(data, '{')
	for ok {
		var key, value []byte
		key, value, ok = c.next()
		if ok {
			ch.set(key, value)
		}
	}
	return c.whole()
}

func (ch *chunk) set(key, value []byte) {
	switch string(key) {
	case "choices":
		ch.choices = nil
		if value[0] == '[' {
			ch.choices = value
		}
	case "usage":
		ch.usage = value
	case "error":
		ch.err = value
	case "type":
		ch.kind = unquote(value)
	case "object":
		ch.object = unquote(value)
	case "response":
		ch.response = value
	case "message":
		ch.message = value
	case "x_groq":
		ch.groq = value
	case "timings":
		ch.timings = value
	case "delta":
		ch.delta = value
	case "content_block":
		ch.block = value
	case "audio":
		ch.audio = value
	}
}

// fails reports that a chunk is an error, or has one beside an answer.
func (ch *chunk) fails() bool {
	return holds(ch.err) || string(ch.object) == "error" || holds(member(ch.groq, "error"))
}
