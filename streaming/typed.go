package streaming

import "bytes"

// observeType counts the delta of a typed event.
func (m *Meter) observeType(ch *chunk) {
	switch string(ch.kind) {
	case "":
	case "content_block_delta": // a signature is not a part of the answer
		m.count(carries(ch.delta, "text", "thinking", "partial_json", "content"))
	case "content_block_start": // redacted thinking comes whole in its data, and a tool has a name
		m.count(carries(ch.block, "text", "thinking", "data", "name"))
	default:
		m.count(isDelta(ch.kind) && (holds(ch.delta) || holds(ch.audio)) || isPartialImage(ch.kind))
	}
}

func (m *Meter) count(delta bool) {
	if delta {
		m.deltas++
	}
}

func isDelta(kind []byte) bool        { return bytes.HasSuffix(kind, []byte(".delta")) }
func isPartialImage(kind []byte) bool { return bytes.HasSuffix(kind, []byte(".partial_image")) }

func isFailure(kind []byte) bool { return string(kind) == "error" || string(kind) == "response.failed" }

// isTerminal reports whether an event ends an answer properly, with nothing after it.
func isTerminal(kind []byte) bool {
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.cancelled", "message_stop",
		"transcript.text.done", "speech.audio.done",
		"image_generation.completed", "image_edit.completed":
		return true
	}
	return false
}
