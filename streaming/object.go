package streaming

import (
	"math"
	"strconv"
)

// object holds the members of a usage object as written. Servers name the same count differently; doc.go lists
// who uses which name.
type object struct {
	prompt, input, completion, output, total []byte
	inputDetails, outputDetails              []byte
	cacheRead, cacheWrite, cacheCreation     []byte
	cachedTokens, cacheHit                   []byte
	iterations                               []byte
	serverTools, searchQueries               []byte
	tier                                     []byte
	within                                   []byte // an object with the counts, in place of counts
}

// read reports whether the object is whole.
func (o *object) read(data []byte) bool {
	whole := o.readMembers(data)
	if o.within != nil && o.prompt == nil && o.input == nil && o.completion == nil && o.output == nil && o.total == nil {
		o.readMembers(o.within)
	}
	return whole
}

func (o *object) readMembers(data []byte) bool {
	c := open(data, '{')
	for c.next() {
		switch string(c.key) {
		case "prompt_tokens", "promptTokens", "promptTokenCount", "prompt_token_count":
			o.prompt = c.value
		case "input_tokens", "inputTokens", "inputTokenCount":
			o.input = c.value
		case "completion_tokens", "completionTokens", "candidatesTokenCount", "candidates_token_count":
			o.completion = c.value
		case "output_tokens", "outputTokens", "outputTokenCount":
			o.output = c.value
		case "total_tokens", "totalTokens", "totalTokenCount", "total_token_count":
			o.total = c.value
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			o.inputDetails = c.value
		case "completion_tokens_details", "output_tokens_details", "output_token_details":
			o.outputDetails = c.value
		case "cache_read_input_tokens":
			o.cacheRead = c.value
		case "cache_creation_input_tokens":
			o.cacheWrite = c.value
		case "cache_creation":
			o.cacheCreation = c.value
		case "server_tool_use":
			o.serverTools = c.value
		case "num_search_queries":
			o.searchQueries = c.value
		case "service_tier", "trafficType", "traffic_type":
			if o.tier == nil {
				o.tier = c.value
			}
		case "speed":
			if tierOf(unquote(c.value)) != "" {
				o.tier = c.value
			}
		case "extra_properties": // Google's, beside the counts of OpenAI
			if tier := member(member(c.value, "google"), "traffic_type"); tier != nil {
				o.tier = tier
			}
		case "cached_tokens", "cachedContentTokenCount":
			o.cachedTokens = c.value
		case "prompt_cache_hit_tokens":
			o.cacheHit = c.value
		case "iterations":
			o.iterations = c.value
		case "tokens", "billed_units": // Cohere's, of which the first tells more
			if isObject(c.value) && (o.within == nil || string(c.key) == "tokens") {
				o.within = c.value
			}
		}
	}
	return c.whole()
}

func (o *object) in() int64  { return first(readTokens(o.prompt), readTokens(o.input)) }
func (o *object) out() int64 { return first(readTokens(o.completion), readTokens(o.output)) }

// cached is the part of the prompt that came from a cache, or -1.
func (o *object) cached(in *details) int64 {
	return max(in.cached, readTokens(o.cachedTokens), readTokens(o.cacheHit))
}

// searches is how often the provider searched the web, or -1.
func (o *object) searches() int64 {
	return max(detail(o.serverTools, "web_search_requests"), readTokens(o.searchQueries))
}

// details are the parts of a count, each -1 if it is not told.
type details struct {
	kinds
	reasoning int64
}

// kinds are those of an input or an output, but for reasoning.
type kinds struct{ cached, written, audio, audioCached, image, imageCached int64 }

// take takes over what is told.
func (d *kinds) take(o *kinds) {
	take(&d.cached, o.cached)
	take(&d.written, o.written)
	take(&d.audio, o.audio)
	take(&d.audioCached, o.audioCached)
	take(&d.image, o.image)
	take(&d.imageCached, o.imageCached)
}

// readDetails reads the object beside a count that tells them.
func readDetails(data []byte) details {
	d := details{kinds{-1, -1, -1, -1, -1, -1}, -1}
	if len(data) == 0 { // as in most chunks of a stream
		return d
	}
	c := open(data, '{')
	for c.next() {
		switch string(c.key) {
		case "cached_tokens":
			d.cached = readTokens(c.value)
		case "cache_write_tokens", "cache_creation_tokens":
			d.written = readTokens(c.value)
		case "audio_tokens":
			d.audio = readTokens(c.value)
		case "image_tokens":
			d.image = readTokens(c.value)
		case "cached_tokens_details":
			d.audioCached = detail(c.value, "audio_tokens")
			d.imageCached = detail(c.value, "image_tokens")
		case "reasoning_tokens":
			d.reasoning = readTokens(c.value)
		}
	}
	return d
}

func detail(object []byte, name string) int64 { return readTokens(member(object, name)) }

// first prefers the chat name of a count. Servers that know both names may leave either one at 0.
func first(a, b int64) int64 {
	if a > 0 {
		return a
	}
	return max(a, b)
}

// maxTokens is the largest count that is believed. A larger one is upstream's mistake, and sums of
// a few must stay far below the end of int64.
const maxTokens = 1_000_000_000_000

// readTokens reads a count, or -1 for anything but a number from 0 to maxTokens. Some servers write 12.0 or "12".
func readTokens(value []byte) int64 {
	if len(value) == 0 || len(value) > 13 || len(value) > 1 && value[0] == '0' {
		return oddTokens(value)
	}
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return oddTokens(value)
		}
		n = n*10 + int64(c-'0')
	}
	if n > maxTokens {
		return -1
	}
	return n
}

// oddTokens reads a count that is no plain integer.
func oddTokens(value []byte) int64 {
	if len(value) > 2 && value[0] == '"' {
		value = value[1 : len(value)-1]
	}
	const longest = 24
	if len(value) == 0 || len(value) > longest || value[0] < '0' || value[0] > '9' || len(value) > 1 && value[0] == '0' && value[1] != '.' {
		return -1
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n > maxTokens {
		return -1
	}
	return int64(math.Ceil(n))
}
