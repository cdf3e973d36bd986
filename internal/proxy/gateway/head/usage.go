package head

import "github.com/llmgov/llmgov/internal/lib/splice"

// AskForUsage makes a stream report its usage. It reports whether the client did not ask for that,
// so that the extra chunk is to be withheld.
func (h *Head) AskForUsage(edits []splice.Edit) ([]splice.Edit, bool) {
	so := &h.streamOptions
	switch {
	case so.includeUsage:
		return edits, false
	case !so.present:
		return append(edits, h.insert("stream_options", `{"include_usage":true}`, h.empty)), true
	case so.open == 0: // null
		return append(edits, splice.Edit{Start: so.start, End: so.end, Text: `{"include_usage":true}`}), true
	case so.usageField.present:
		return append(edits, splice.Edit{Start: so.usageField.start, End: so.usageField.end, Text: "true"}), true
	}
	return append(edits, splice.Edit{Start: so.open, End: so.open, Text: splice.Member("include_usage", "true", so.empty)}), true
}
