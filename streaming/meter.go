package streaming

import "bytes"

// Kind says what an event means to whoever forwards it.
type Kind uint8

// The kinds of events. A chunk that is several things at once is the one named last here, except that a
// delta stays a Delta when usage comes with it.
const (
	KeepAlive Kind = iota // no data: a comment, an id, a blank line
	Opaque                // data that is not understood
	Other                 // understood, but irrelevant: a role, a finish reason, response.created
	Delta                 // carries a part of the answer
	UsageOnly             // the extra chunk of include_usage: usage beside choices that say nothing, or none
	Final                 // the proper end: [DONE], response.completed, response.incomplete
	Failure               // upstream reports an error
)

var kindNames = [...]string{"keep-alive", "opaque", "other", "delta", "usage-only", "final", "failure"}

// String returns the kind in words.
func (k Kind) String() string { return kindNames[k] }

// Meter reads the events of one answer: chat and completions chunks, and typed events as those of Responses,
// Anthropic's messages, transcriptions, speech and images. The zero value is ready to use.
type Meter struct {
	counts   counts
	reported bool // the usage tells of the output too
	deltas   int64
	ran      ran   // as events tell
	items    ran   // as items tell that are done: servers may send them alone
	texts    int64 // bytes of text in events before the first delta
	some     bool  // an event was seen that may be of an answer, other than a role
	done     bool  // a terminal event was seen
	failed   bool
	broken   bool      // a terminal event was seen which says that the answer failed
	seen     choiceSet // choices that had a chunk
	finished choiceSet // choices that had a finish_reason
	parts    pattern
}

// Observe reads one event. It does not keep name and data.
func (m *Meter) Observe(name, data []byte) Kind {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return KeepAlive
	case string(data) == endOfStream: // of nothing, it is no end
		m.done = m.done || m.begun()
		return Final
	}
	if n := m.parts.matches(name, data); n > 0 {
		m.deltas += n
		return Delta
	}
	return m.read(name, data)
}

// skim counts the event at the beginning of in, if it is a part of the answer like the remembered one, and returns its length;
// otherwise 0.
func (m *Meter) skim(in []byte) int {
	length := m.parts.skim(in)
	if length > 0 {
		m.deltas += m.parts.deltas
	}
	return length
}

// read reads an event that is not like the remembered one.
func (m *Meter) read(name, data []byte) Kind {
	if m.deltas == 0 {
		m.texts += textsIn(data)
	}
	var ch chunk
	if !ch.read(data) {
		return m.opaque(name)
	}
	if len(ch.kind) == 0 {
		ch.kind = name
	}
	before := m.deltas
	said := m.observeChoices(&ch)
	is := words.roles[string(ch.kind)]
	usage := m.report(&ch, is)
	if is&ranTool != 0 {
		m.ran.count(bytes.TrimSuffix(ch.kind[len(toolBegin):], []byte(toolEnd)))
	}
	if is&endsItem != 0 {
		m.endItem(ch.members[words.item])
	}
	complains := !m.begun() && ch.mayComplain() && Look(data) == Wrong
	m.some = m.some || usage || !ch.isNothing() && holds(data)
	m.count(words.isPart(&ch))
	if m.fail(is&fails != 0 || ch.fails() || complains || string(name) == "error", is) {
		return Failure
	}
	switch {
	case is&ends != 0:
		m.done = true
		return Final
	case m.deltas > before:
		if !usage {
			m.parts.remember(name, data, m.deltas-before)
		}
		return Delta
	case usage && !said && (len(ch.choices) > 0 || len(ch.kind) == 0):
		return UsageOnly
	}
	return Other
}

// endItem takes in an item that is done. One that failed has no event that ends it.
func (m *Meter) endItem(item []byte) {
	kind := unquote(member(item, "type"))
	action := unquote(member(member(item, "action"), "type"))
	if string(kind) != tools[0] {
		action = nil
	}
	m.ran.read(action)
	if string(unquote(member(item, "status"))) == "completed" {
		m.items.count(kind)
		m.items.read(action)
	}
}

// observeLarge reads the members that a finder picked out of an event that was too large to be kept. It reports whether
// that was enough to tell the kind of the event.
func (m *Meter) observeLarge(f *finder) (known bool) {
	kind := f.kind.bytes()
	if f.state != behind {
		return false
	}
	is := words.roles[string(kind)]
	m.some = true
	m.reportObject(is, f.found)
	m.counts.setTier(f.tier.bytes())
	m.fail(is&fails != 0, is)
	m.done = m.done || is&ends != 0
	m.count(words.isLargePart(kind))
	return len(kind) > 0
}

// Usage returns the usage reported last, and whether any was. Without a report its Input may still
// be known. Zeros beside an answer are no report: servers write them that do not know yet.
func (m *Meter) Usage() (u Usage, reported bool) {
	u = m.counts.usage()
	m.ran.addTo(&u)
	m.items.addTo(&u)
	return u, m.reported && (m.deltas == 0 || (u.Input > 0 || u.Output > 0) && !m.counts.noAnswer())
}

// Deltas returns how many parts of the answer came so far, one for each choice in a chunk.
func (m *Meter) Deltas() int64 { return m.deltas }

// Finished reports whether a proper end was seen: a terminal event, or a finish_reason for each
// choice so far.
func (m *Meter) Finished() bool {
	return m.done || m.seen != choiceSet{} && m.seen == m.finished
}

// begun reports whether anything of an answer was seen, or that it ended.
func (m *Meter) begun() bool {
	return m.some || m.deltas > 0 || m.finished != choiceSet{} || m.counts.told
}

// over reports whether nothing that counts can follow.
func (m *Meter) over() bool { return m.done || m.broken }

// fail notes an error of the upstream, if it is one.
func (m *Meter) fail(failed bool, is role) bool {
	m.failed = m.failed || failed
	m.broken = m.broken || is&breaks != 0
	return failed
}

func (m *Meter) count(part bool) {
	if part {
		m.deltas++
	}
}

// Failed reports whether upstream sent an error in the stream.
func (m *Meter) Failed() bool { return m.failed }

// opaque judges data that is no JSON object, of which only the event's name can say something.
func (m *Meter) opaque(name []byte) Kind {
	if string(name) != "error" {
		m.some = true
		return Opaque
	}
	m.failed = true
	return Failure
}

// report takes over the usage of a chunk, if it has any, and reports whether there was a usage
// object. Of several, the last in this order wins: objects that are usage but not by name, usage in
// an unusual place, and usage in its place.
func (m *Meter) report(ch *chunk, is role) (found bool) {
	if ch.timings != nil {
		m.counts.addTimings(ch.timings)
		m.reported = m.reported || m.counts.told
	}
	for _, usage := range [...][]byte{ch.otherUsage, ch.choiceUsage, member(ch.groq, "usage"), ch.usage} {
		found = m.reportObject(is, usage) || found
	}
	m.counts.setTier(unquote(ch.tier))
	for _, i := range words.envelopes {
		found = m.reportObject(is, member(ch.members[i], "usage")) || found
		m.counts.setTier(unquote(member(ch.members[i], "service_tier")))
	}
	return found
}

// reportObject reads a usage object, and reports whether it is one. Of the prompt alone it is no report, or an
// answer that breaks off would look as if it had one token: Anthropic's message_start tells of the prompt, and its
// message_delta of the output so far.
func (m *Meter) reportObject(is role, usage []byte) bool {
	if !isObject(usage) {
		return false
	}
	var o object
	if o.read(usage) && m.counts.add(&o) && is&ofPrompt == 0 {
		m.reported = true
	}
	return true
}
