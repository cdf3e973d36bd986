package streaming

// maxTokens is the largest count that is believed. Larger ones are a fault upstream, and adding a few of
// them up must stay far from the end of int64.
const maxTokens = 1_000_000_000_000

// Usage is what upstream says an answer took, in tokens.
type Usage struct {
	Input       int64 // the prompt, cached or not
	CachedInput int64 // part of Input
	Output      int64 // the answer, reasoning included
	Reasoning   int64 // part of Output
	Audio       int64 // part of Input and Output together
}

// tells is what a usage object speaks of.
type tells uint8

const (
	nothing tells = iota // nothing in it counts
	outputOnly
	everything
)

// readUsage reads a usage object in the words of chat (prompt_tokens), of Responses (input_tokens), of
// embeddings (no output; some servers give total_tokens only) or of Anthropic, whose input_tokens leave out what
// was read from a cache or written to it.
func readUsage(object []byte) (Usage, tells) {
	var w usageWords
	if !w.read(object) {
		return Usage{}, nothing
	}
	in := first(readTokens(w.prompt), readTokens(w.input))
	out := first(readTokens(w.completion), readTokens(w.output))
	if in < 0 && out < 0 {
		in = readTokens(w.total)
	}
	if in < 0 && out < 0 {
		return Usage{}, nothing
	}
	cacheRead := max(0, readTokens(w.cacheRead))
	u := Usage{Input: max(0, in) + cacheRead + max(0, readTokens(w.cacheWrite)), Output: max(0, out)}
	u.CachedInput = min(u.Input, max(cacheRead, detail(w.inputDetails, "cached_tokens")))
	u.Reasoning = min(u.Output, detail(w.outputDetails, "reasoning_tokens"))
	u.Audio = min(u.Input, detail(w.inputDetails, "audio_tokens")) +
		min(u.Output, detail(w.outputDetails, "audio_tokens"))
	if in < 0 {
		return u, outputOnly
	}
	return u, everything
}

// usageWords holds the members of a usage object as written.
type usageWords struct {
	prompt, input, completion, output, total []byte
	inputDetails, outputDetails              []byte
	cacheRead, cacheWrite                    []byte
}

// read reports whether the object is whole.
func (w *usageWords) read(object []byte) bool {
	c, ok := open(object, '{')
	for ok {
		var key, value []byte
		if key, value, ok = c.next(); !ok {
			break
		}
		switch string(key) {
		case "prompt_tokens":
			w.prompt = value
		case "input_tokens":
			w.input = value
		case "completion_tokens":
			w.completion = value
		case "output_tokens":
			w.output = value
		case "total_tokens":
			w.total = value
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			w.inputDetails = value
		case "completion_tokens_details", "output_tokens_details", "output_token_details":
			w.outputDetails = value
		case "cache_read_input_tokens":
			w.cacheRead = value
		case "cache_creation_input_tokens":
			w.cacheWrite = value
		}
	}
	return c.whole()
}

func detail(object []byte, name string) int64 {
	return max(0, readTokens(member(object, name)))
}

// first prefers the chat name of a count. Servers that know both names may leave the other one at 0.
func first(a, b int64) int64 {
	if a >= 0 {
		return a
	}
	return b
}

// readTokens reads a count, or -1 for anything but a plain integer from 0 to maxTokens.
func readTokens(value []byte) int64 {
	if len(value) == 0 || len(value) > 13 || len(value) > 1 && value[0] == '0' {
		return -1
	}
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	if n > maxTokens {
		return -1
	}
	return n
}
