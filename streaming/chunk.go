package streaming

// chunk holds the top-level members of an event that matter, as written.
type chunk struct {
	kind        []byte // of "type", without quotes; else the name of the event
	object      []byte // without quotes
	choices     []byte
	usage       []byte
	choiceUsage []byte // of the last choice that has one
	otherUsage  []byte // by another name, or in a wrapping
	err         []byte
	fault       bool               // of a choice
	groq        []byte             // "x_groq"
	timings     []byte             // llama.cpp's
	tier        []byte             // of service
	members     [maxMembers][]byte // that typed events have, as dialects number them
}

// read reports whether the chunk is whole.
func (ch *chunk) read(data []byte) bool {
	c := open(data, '{')
	for c.next() {
		ch.set(c.key, c.value)
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
	case "usageMetadata", "usage_metadata", "token_usage":
		ch.otherUsage = value
	case "data", "result":
		if usage := member(value, "usage"); usage != nil {
			ch.otherUsage = usage
		}
	case "x_groq":
		ch.groq = value
	case "timings":
		ch.timings = value
	case "service_tier":
		ch.tier = value
	default:
		if i := words.member(key); i >= 0 {
			ch.members[i] = value
		}
	}
}

// isNothing reports whether a chunk that has no delta and no usage has nothing of an answer, either.
func (ch *chunk) isNothing() bool {
	if len(ch.kind) > 0 {
		return string(ch.kind) == "ping"
	}
	return ch.choices != nil || string(ch.object) == "chat.completion.chunk"
}

// mayComplain reports whether a chunk may be an error in words that only errors in place of an answer have.
func (ch *chunk) mayComplain() bool { return len(ch.kind) == 0 && len(ch.choices) == 0 }

// fails reports that a chunk is an error, or has one beside an answer.
func (ch *chunk) fails() bool {
	return ch.fault || holds(ch.err) || string(ch.object) == "error" || holds(member(ch.groq, "error"))
}
