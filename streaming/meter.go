package streaming

import "bytes"

// Kind says what an event is to the one who forwards it.
type Kind uint8

// The kinds of events. A chunk that is several things at once is the one named last here, except that a
// delta stays a Delta when usage comes with it.
const (
	KeepAlive Kind = iota // no data: a comment, an id, a blank line
	Opaque                // data that is not understood
	Other                 // understood and of no account: a role, a finish reason, response.created
	Delta                 // carries a part of the answer
	UsageOnly             // the extra chunk of include_usage: usage beside empty choices
	Final                 // the proper end: [DONE], response.completed, response.incomplete
	Failure               // upstream reports an error
)

var kindNames = [...]string{"keep-alive", "opaque", "other", "delta", "usage-only", "final", "failure"}

// String returns the kind in words.
func (k Kind) String() string { return kindNames[k] }

// Meter reads the events of one answer: chat and completions chunks, and typed events as those of Responses,
// Anthropic's messages, transcriptions, speech and images. The zero value is ready to use.
type Meter struct {
	usage    Usage
	reported bool // usage tells of the output too
	deltas   int64
	done     bool // a terminal event was seen
	failed   bool
	seen     choiceSet // choices that had a chunk
	finished choiceSet // choices that had a finish_reason
}

// Observe reads one event. It keeps nothing of name and data.
func (m *Meter) Observe(name, data []byte) Kind {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return KeepAlive
	case string(data) == "[DONE]":
		m.done = true
		return Final
	}
	ch, ok := readChunk(data)
	if !ok {
		return m.opaque(name)
	}
	if len(ch.kind) == 0 {
		ch.kind = name
	}
	usage := m.report(ch)
	choices, before := 0, m.deltas
	if ch.choices != nil {
		choices = m.observeChoices(ch.choices)
	}
	if m.observeType(ch) == Failure || holds(ch.err) || string(name) == "error" {
		m.failed = true
		return Failure
	}
	switch {
	case isTerminal(ch.kind):
		m.done = true
		return Final
	case m.deltas > before:
		return Delta
	case usage && choices == 0 && len(ch.choices) > 0:
		return UsageOnly
	}
	return Other
}

// Usage returns the usage reported last, and whether there was any. Without one, its Input may be known all the same.
func (m *Meter) Usage() (Usage, bool) { return m.usage, m.reported }

// Deltas returns how many parts of the answer came so far, one for each choice in a chunk.
func (m *Meter) Deltas() int64 { return m.deltas }

// Finished reports that a proper end was seen: a terminal event, or a finish_reason for each choice so far.
func (m *Meter) Finished() bool {
	return m.done || m.seen != choiceSet{} && m.seen == m.finished
}

// Failed reports that upstream sent an error in the stream.
func (m *Meter) Failed() bool { return m.failed }

// opaque judges data that is no JSON object: only the name can say something about it.
func (m *Meter) opaque(name []byte) Kind {
	if string(name) != "error" {
		return Opaque
	}
	m.failed = true
	return Failure
}

// chunk holds the top-level members that matter, as written.
type chunk struct {
	kind                                 []byte // of "type", without quotes
	choices, usage, err, response, delta []byte
	message                              []byte
}

func readChunk(data []byte) (ch chunk, ok bool) {
	c, ok := open(data, '{')
	for ok {
		var key, value []byte
		if key, value, ok = c.next(); !ok {
			break
		}
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
		case "response":
			ch.response = value
		case "delta":
			ch.delta = value
		case "message":
			ch.message = value
		}
	}
	return ch, c.whole()
}

// report takes over the usage of a chunk, if it has one. It reports whether there was a usage object at all.
//
// Anthropic's message_start tells of the prompt, and its message_delta of the output so far; the former alone is
// no report, or an answer that breaks off would look as if it had one token.
func (m *Meter) report(ch chunk) bool {
	usage := ch.usage
	for _, envelope := range [][]byte{ch.response, ch.message} {
		if inner := member(envelope, "usage"); inner != nil {
			usage = inner
		}
	}
	if len(usage) == 0 || usage[0] != '{' {
		return false
	}
	u, tells := readUsage(usage)
	if tells == nothing {
		return true
	}
	if tells == outputOnly {
		u.Input, u.CachedInput = m.usage.Input, m.usage.CachedInput
	}
	m.usage = u
	m.reported = m.reported || string(ch.kind) != "message_start"
	return true
}

// observeType reads typed events, those of which each is of one kind.
func (m *Meter) observeType(ch chunk) Kind {
	switch {
	case string(ch.kind) == "error", string(ch.kind) == "response.failed":
		return Failure
	case (bytes.HasSuffix(ch.kind, []byte(".delta")) || string(ch.kind) == "content_block_delta") && holds(ch.delta):
		m.deltas++
		return Delta
	}
	return Other
}

// isTerminal knows the events behind which nothing comes.
func isTerminal(kind []byte) bool {
	switch string(kind) {
	case "response.completed", "response.incomplete", "message_stop",
		"transcript.text.done", "speech.audio.done",
		"image_generation.completed", "image_edit.completed":
		return true
	}
	return false
}
