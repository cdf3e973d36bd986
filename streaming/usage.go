package streaming

import (
	"bytes"
	"strings"
)

// Usage is upstream's report of what an answer took: tokens, but for the last ones. No token of Input belongs to two of its parts.
type Usage struct {
	Input          int64 // the prompt, cached or not
	CachedInput    int64 // part of Input: read from a cache
	CacheWrite     int64 // part of Input: written to a cache
	CacheWriteHour int64 // part of Input: written to a cache that keeps it for an hour
	Output         int64 // the answer, reasoning included
	Reasoning      int64 // part of Output
	AudioInput     int64 // part of Input
	AudioOutput    int64 // part of Output
	ImageInput     int64 // part of Input
	ImageOutput    int64 // part of Output
	Tools          int64 // web searches
	FileSearches   int64
	CodeSessions   int64 // in which code was run
	// Tier is the service tier that answered, in lower case; "" is the standard one, by whichever of its names.
	Tier string
}

// ofOutput reports whether the usage is of an output alone.
func (u *Usage) ofOutput() bool { return u.Input == 0 && u.Output > 0 }

// tools are the types of the items that tell of what the server ran for Responses. Events that tell that one has ended are named after them.
var tools = [...]string{"web_search_call", "file_search_call", "code_interpreter_call"}

const (
	toolBegin = "response."
	toolEnd   = ".completed"
	itemEnd   = "response.output_item.done"
)

// ran counts them.
type ran [len(tools)]int64

// read takes off again what an action of a web search is if it reads a page, which costs nothing, and has the same events and items as a search.
func (r *ran) read(action []byte) {
	if string(action) == "open_page" || string(action) == "find_in_page" {
		r[0]--
	}
}

func (r *ran) count(item []byte) {
	for i, tool := range tools {
		if string(item) == tool {
			r[i]++
		}
	}
}

// addTo adds them to a usage, which may tell of them itself. All code of an answer runs in one session.
func (r *ran) addTo(u *Usage) {
	u.Tools = max(u.Tools, r[0])
	u.FileSearches = max(u.FileSearches, r[1])
	u.CodeSessions = max(u.CodeSessions, min(r[2], 1))
}

// counts gathers the counts of all usage objects of one answer. All of them are about the same answer,
// so nothing is added up: of each count, the last one told holds. What a later object leaves out is
// kept, and so is all of a side, input or output, for which it tells nothing but zeros: it was not
// filled in.
type counts struct {
	input, cacheRead, cacheWrite, cacheHour int64
	in                                      kinds
	output, reasoning, audioOut, imageOut   int64
	total                                   int64 // of the last object that told anything
	tools                                   int64
	tier                                    string
	compacted                               *Usage // what making room in the conversation took, which is in no other count

	apart    bool // the input is in Anthropic's words, which leave out what was read from a cache or written to it
	noOutput bool // no object told of an output
	told     bool
	timed    bool // by nothing but timings
}

// ReadTier reads the service tier that an answer tells beside its usage; "" is the standard one.
func ReadTier(name string) string { return tierOf([]byte(name)) }

// ReadUsage reads a usage object that stands alone, as in a plain answer. It reports whether the
// object tells anything.
func ReadUsage(usage []byte) (u Usage, reported bool) {
	c, reported := readCounts(usage)
	return c.usage(), reported
}

func readCounts(usage []byte) (c counts, reported bool) {
	var o object
	reported = o.read(usage) && c.add(&o)
	return c, reported
}

// noAnswer reports whether the counts leave an answer out. Beside one they are no report, though they may tell of the prompt.
func (c *counts) noAnswer() bool { return c.noOutput && c.total == 0 }

// add takes over the counts of an object, and reports whether it has any.
func (c *counts) add(o *object) bool {
	in := o.in()
	out := o.out()
	total := readTokens(o.total)
	if in < 0 && out < 0 && total < 0 {
		return false
	}
	c.noOutput = (c.noOutput || !c.told) && out < 0
	c.told = true
	c.timed = false
	c.total = max(0, total)
	cacheRead := readTokens(o.cacheRead)
	cacheWrite := readTokens(o.cacheWrite)
	if max(in, cacheRead, cacheWrite) > 0 {
		if in >= 0 {
			c.apart = readTokens(o.prompt) < 0 && !isObject(o.inputDetails)
		}
		take(&c.input, in)
		take(&c.cacheRead, cacheRead)
		take(&c.cacheWrite, cacheWrite)
		take(&c.cacheHour, detail(o.cacheCreation, "ephemeral_1h_input_tokens"))
		d := readDetails(o.inputDetails)
		d.cached = o.cached(&d)
		c.in.take(&d.kinds)
	}
	d := readDetails(o.outputDetails)
	if out > 0 {
		c.output = out
		take(&c.reasoning, d.reasoning)
		take(&c.audioOut, d.audio)
		take(&c.imageOut, d.image)
	} else if d.reasoning > 0 {
		c.reasoning = d.reasoning // an answer may be nothing but reasoning so far, told beside it
	}
	if o.iterations != nil {
		c.compacted = compacted(o.iterations)
	}
	take(&c.tools, o.searches())
	c.setTier(unquote(o.tier))
	return true
}

// setTier notes which tier answers. The last event tells: those before it may name the one that was asked for.
func (c *counts) setTier(name []byte) {
	if len(name) > 0 {
		c.tier = tierOf(name)
	}
}

// addTimings takes over llama.cpp's timings, unless there is usage. Their prompt excludes what was
// found in the cache.
func (c *counts) addTimings(timings []byte) {
	in := detail(timings, "prompt_n")
	out := detail(timings, "predicted_n")
	if c.told && !c.timed || in < 0 && out < 0 {
		return
	}
	c.told = true
	c.timed = true
	cached := max(0, detail(timings, "cache_n"))
	c.input = max(0, in) + cached
	c.in.cached = cached
	c.output = max(0, out)
}

func take(count *int64, told int64) {
	if told >= 0 {
		*count = told
	}
}

// usage puts the counts together. Which count contains which differs from server to server. Where
// there is a total it decides, so that nothing in the total is lost and nothing is counted twice.
func (c *counts) usage() Usage {
	u := Usage{Input: c.input, Output: c.output}
	if c.cacheApart() {
		u.Input += c.cacheRead + c.cacheWrite
	}
	reasoning := c.reasoning
	if rest := c.total - u.Input - u.Output; rest > 0 {
		if u.Input == 0 || c.noOutput {
			u.Input += rest
		} else { // thoughts are in the total of some servers and not in their output
			u.Output += rest
			reasoning = max(reasoning, rest)
		}
	}
	u.CachedInput = min(u.Input, max(c.cacheRead, c.in.cached))
	rest := u.Input - u.CachedInput
	written := min(rest, max(c.cacheWrite, c.in.written))
	u.CacheWriteHour = min(written, c.cacheHour)
	u.CacheWrite = written - u.CacheWriteHour
	rest -= written
	u.AudioInput = min(rest, max(0, c.in.audio-c.in.audioCached))
	u.ImageInput = min(rest-u.AudioInput, max(0, c.in.image-c.in.imageCached))
	u.Reasoning = min(u.Output, reasoning)
	u.AudioOutput = min(u.Output, c.audioOut)
	u.ImageOutput = min(u.Output-u.AudioOutput, c.imageOut)
	if more := c.compacted; more != nil {
		u.Input += more.Input
		u.CachedInput += more.CachedInput
		u.CacheWrite += more.CacheWrite
		u.CacheWriteHour += more.CacheWriteHour
		u.Output += more.Output
	}
	u.Tools = c.tools
	u.Tier = c.tier
	return u
}

// cacheApart reports whether the input excludes what was read from a cache or written to it.
func (c *counts) cacheApart() bool {
	cache := c.cacheRead + c.cacheWrite
	switch {
	case cache > c.input:
		return true // a part is not larger than the whole
	case c.total > 0:
		return c.total >= c.input+cache+c.output
	}
	return c.apart
}

// compacted adds up the iterations in which a conversation was shortened before it was answered.
// Anthropic leaves them out of the counts beside the list, though they took tokens like any others.
func compacted(iterations []byte) *Usage {
	sum := new(Usage)
	add := func(to *int64, n int64) { *to = min(*to+max(0, n), maxTokens) }
	c := open(iterations, '[')
	for c.next() {
		var o object
		var each counts
		if string(unquote(member(c.value, "type"))) != "compaction" || !o.read(c.value) || !each.add(&o) {
			continue
		}
		each.apart = true
		u := each.usage()
		add(&sum.Input, u.Input)
		add(&sum.CachedInput, u.CachedInput)
		add(&sum.CacheWrite, u.CacheWrite)
		add(&sum.CacheWriteHour, u.CacheWriteHour)
		add(&sum.Output, u.Output)
	}
	return sum
}

// standardTiers are names of the tier at which a call is served that asks for none.
var standardTiers = [...]string{"default", "standard", "auto", "on_demand"}

// longestTier bounds the names of tiers. No provider has a longer one.
const longestTier = 48

// tierOf is the tier of a name that an answer tells; "" is the standard one.
func tierOf(name []byte) string {
	if len(name) > longestTier {
		return ""
	}
	for _, standard := range standardTiers {
		if bytes.EqualFold(name, []byte(standard)) {
			return ""
		}
	}
	tier := strings.ToLower(string(name))
	return strings.TrimPrefix(tier, "on_demand_") // Google's
}
