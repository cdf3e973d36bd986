package streaming

// observeChoices reads the choices of a chat or completions chunk and reports whether one of them says anything.
func (m *Meter) observeChoices(ch *chunk) (say bool) {
	c := open(ch.choices, '[')
	for c.next() {
		say = m.observeChoice(ch, c.value) || say
	}
	return say
}

func (m *Meter) observeChoice(ch *chunk, choice []byte) (says bool) {
	var index int64
	var content, finished bool
	c := open(choice, '{')
	for c.next() {
		switch string(c.key) {
		case "index":
			index = readTokens(c.value)
		case "delta":
			content = content || deltaHolds(c.value)
			says = says || anyHolds(c.value)
		case "text":
			content = content || holds(c.value)
		case "finish_reason":
			finished = finished || c.value[0] == '"' && holds(c.value)
			ch.fault = ch.fault || string(c.value) == `"error"`
		case "error":
			ch.fault = ch.fault || holds(c.value)
		case "usage":
			ch.choiceUsage = c.value
		}
	}
	if content {
		m.deltas++
	}
	m.seen.add(index)
	if finished {
		m.finished.add(index)
	}
	return says || content || finished || ch.fault
}

// anyHolds reports whether a member of an object holds anything.
func anyHolds(object []byte) bool {
	c := open(object, '{')
	for c.next() {
		if holds(c.value) {
			return true
		}
	}
	return false
}

// deltaHolds reports whether a delta carries a part of the answer: text, reasoning, a refusal, a tool call.
// A role, an empty text or the id of a tool call is not one.
func deltaHolds(delta []byte) bool {
	c := open(delta, '{')
	for c.next() {
		switch string(c.key) {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "refusal", "images":
			if holds(c.value) {
				return true
			}
		case "tool_calls":
			if toolsHold(c.value) {
				return true
			}
		case "function_call":
			if holds(member(c.value, "name")) || holds(member(c.value, "arguments")) {
				return true
			}
		case "audio":
			if holds(member(c.value, "data")) || holds(member(c.value, "transcript")) {
				return true
			}
		}
	}
	return false
}

func toolsHold(array []byte) bool {
	c := open(array, '[')
	for c.next() {
		f := member(c.value, "function")
		if f == nil {
			f = member(c.value, "custom")
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
