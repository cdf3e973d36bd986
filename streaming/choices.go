package streaming

// observeChoices reads the choices of a chat or completions chunk and returns how many there are.
func (m *Meter) observeChoices(ch *chunk) (n int) {
	c, ok := open(ch.choices, '[')
	for ok {
		var value []byte
		_, value, ok = c.next()
		if ok {
			m.observeChoice(ch, value)
			n++
		}
	}
	return n
}

func (m *Meter) observeChoice(ch *chunk, choice []byte) {
	var index int64
	var content, finished bool
	c, ok := open(choice, '{')
	for ok {
		var key, value []byte
		key, value, ok = c.next()
		if !ok {
			break
		}
		switch string(key) {
		case "index":
			index = readTokens(value)
		case "delta":
			content = content || deltaHolds(value)
		case "text":
			content = content || holds(value)
		case "finish_reason":
			finished = finished || value[0] == '"' && holds(value)
		case "usage":
			ch.choiceUsage = value
		}
	}
	if content {
		m.deltas++
	}
	m.seen.add(index)
	if finished {
		m.finished.add(index)
	}
}

// deltaHolds reports whether a delta carries a part of the answer: text, reasoning, a refusal, a tool call.
// A role, an empty text or the id of a tool call is not one.
func deltaHolds(delta []byte) bool {
	c, ok := open(delta, '{')
	for ok {
		var key, value []byte
		key, value, ok = c.next()
		if !ok {
			break
		}
		switch string(key) {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "refusal", "images":
			if holds(value) {
				return true
			}
		case "tool_calls":
			if toolsHold(value) {
				return true
			}
		case "function_call":
			if holds(member(value, "name")) || holds(member(value, "arguments")) {
				return true
			}
		case "audio":
			if holds(member(value, "data")) || holds(member(value, "transcript")) {
				return true
			}
		}
	}
	return false
}

func toolsHold(array []byte) bool {
	c, ok := open(array, '[')
	for ok {
		var tool []byte
		_, tool, ok = c.next()
		if !ok {
			break
		}
		f := member(tool, "function")
		if f == nil {
			f = member(tool, "custom")
		}
		if holds(member(f, "name")) || holds(member(f, "arguments")) || holds(member(f, "input")) {
			return true
		}
	}
	return false
}

// choiceSet is a set of choice indices. Indices that it has no room for share the last place, so
// that a server which numbers its choices oddly is judged by the last of them, rather than never
// considered done.
type choiceSet [2]uint64

func (s *choiceSet) add(index int64) {
	i := min(max(index, 0), 127)
	s[i/64] |= 1 << (i % 64)
}
