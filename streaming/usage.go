package streaming

// Usage is upstream's report of the tokens that an answer took.
type Usage struct {
	Input       int64 // the prompt, cached or not
	CachedInput int64 // part of Input
	Output      int64 // the answer, reasoning included
	Reasoning   int64 // part of Output
	AudioInput  int64 // part of Input, as far as it is not CachedInput
	AudioOutput int64 // part of Output
}

// counts gathers the counts of all usage objects of one answer. All of them are about the same answer,
// so nothing is added up: of each count, the last one told holds. What a later object leaves out is
// kept, and so is all of a side, input or output, for which it tells nothing but zeros: it was not
// filled in.
type counts struct {
	input, cacheRead, cacheWrite int64
	cached, audioIn, audioCached int64 // of the details
	output, reasoning, audioOut  int64
	total                        int64 // of the last object that told anything
	compactedIn, compactedOut    int64 // what making room in the conversation took, which is in no other count

	apart    bool // the input is in Anthropic's words, which leave out what was read from a cache or written to it
	noOutput bool // no object told of an output
	told     bool
	timed    bool // by nothing but timings
}

// ReadUsage reads a usage object that stands alone, as in a plain answer. It reports whether the
// object tells anything.
func ReadUsage(usage []byte) (u Usage, reported bool) {
	var o object
	var c counts
	reported = o.read(usage) && c.add(&o)
	return c.usage(), reported
}

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
		d := readDetails(o.inputDetails)
		take(&c.cached, o.cached(&d))
		take(&c.audioIn, d.audio)
		take(&c.audioCached, d.audioCached)
	}
	d := readDetails(o.outputDetails)
	if out > 0 {
		c.output = out
		take(&c.reasoning, d.reasoning)
		take(&c.audioOut, d.audio)
	} else if d.reasoning > 0 {
		c.reasoning = d.reasoning // an answer may be nothing but reasoning so far, told beside it
	}
	if o.iterations != nil {
		c.compactedIn, c.compactedOut = compacted(o.iterations)
	}
	return true
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
	c.cached = cached
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
	u.CachedInput = min(u.Input, max(c.cacheRead, c.cached))
	u.Reasoning = min(u.Output, reasoning)
	u.AudioInput = min(u.Input-u.CachedInput, max(0, c.audioIn-c.audioCached))
	u.AudioOutput = min(u.Output, c.audioOut)
	u.Input += c.compactedIn
	u.Output += c.compactedOut
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
func compacted(iterations []byte) (in, out int64) {
	c := open(iterations, '[')
	for c.next() {
		var o object
		if string(unquote(member(c.value, "type"))) != "compaction" || !o.read(c.value) {
			continue
		}
		in += max(0, readTokens(o.input)) + max(0, readTokens(o.cacheRead)) + max(0, readTokens(o.cacheWrite))
		out += max(0, readTokens(o.output))
	}
	return min(in, maxTokens), min(out, maxTokens)
}
