package adaptive

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Note is the text of another gateway, and how long ago it was written.
type Note struct {
	Age  time.Duration
	Text string
}

// sample is a Sample as it came at some time. Without a Latency the upstream refused the call.
type sample struct {
	Sample
	at  time.Time
	seq int64
}

// member names a gateway, and says since when it has been there, in milliseconds since 1970.
type member struct {
	ID    string `json:"id"`
	Since int64  `json:"since"`
}

// after reports whether a gateway came after another one.
func (m member) after(other member) bool {
	return cmp.Or(cmp.Compare(m.Since, other.Since), cmp.Compare(m.ID, other.ID)) > 0
}

// note is what a gateway tells the others.
type note struct {
	member
	Leads bool `json:"leads,omitempty"`
	// Limit is the limit that it goes by; 0 if it does not know that of the others.
	Limit int64 `json:"limit"`
	// Ended is how many of its calls have ended, and Ran how many milliseconds such a call runs.
	Ended   int64     `json:"ended"`
	Ran     int64     `json:"ran"`
	Samples []written `json:"samples,omitempty"`
	// Read is its last reading of the servers; nil if it leads, or could not read them of late.
	Read *reading `json:"read,omitempty"`

	samples []sample
}

// written is a sample in a note. Times are in microseconds, Ago and Began before the note was written.
type written struct {
	Seq     int64  `json:"q"`
	Ago     int64  `json:"a"`
	Began   int64  `json:"b"`
	Latency int64  `json:"l,omitempty"`
	Running int64  `json:"r,omitempty"`
	Full    bool   `json:"f,omitempty"`
	Model   string `json:"m,omitempty"`
	Stream  bool   `json:"s,omitempty"`
	Tokens  int64  `json:"t,omitempty"`
}

// credible reports whether a sample may be true. One of a time to come would make all that are seen until then
// count as older than the last change of the limit.
func (w *written) credible() bool {
	day := (24 * time.Hour).Microseconds()
	return w.Ago >= 0 && w.Ago <= oldest.Microseconds() && w.Began >= w.Ago && w.Began <= day && w.Latency >= 0 && w.Latency <= day
}

const (
	// mostTold bounds the samples in a note, and oldest says until when they are in it: the others may
	// ask for notes less often than they are written.
	mostTold = 12
	oldest   = 2 * time.Second
	// longest is the most bytes of a model's name in a note: callers make up names.
	longest = 256
	// shortRun is how many calls the duration of a call is a mean of.
	shortRun = 16
)

// keep keeps a sample for the next notes.
func (f *Fleet) keep(s sample) {
	s.seq = 1
	if n := len(f.own); n > 0 {
		s.seq = f.own[n-1].seq + 1
	}
	if len(f.own) == mostTold {
		f.own = slices.Delete(f.own, 0, 1)
	}
	f.own = append(f.own, s)
}

// Tell is the note for all other gateways, and the limit that it names: 0 if this one does not know theirs.
func (f *Fleet) Tell(now time.Time) (text string, limit int64) {
	if f.member.Since == 0 {
		f.member.Since = now.UnixMilli()
	}
	n := note{member: member{f.ID(), f.member.Since}, Leads: f.leads, Ended: f.ended, Ran: int64(f.limiter.run * 1000)}
	if !f.away(now) {
		n.Limit = f.goesBy()
	}
	n.Read = f.tellRead(now)
	for _, s := range f.own {
		if f.leads || now.Sub(s.at) > oldest || len(s.Kind.Model) > longest {
			continue
		}
		n.Samples = append(n.Samples, written{
			Seq: s.seq, Ago: now.Sub(s.at).Microseconds(), Began: now.Sub(s.Began).Microseconds(), Latency: s.Latency.Microseconds(),
			Running: s.Running, Full: s.Full, Model: s.Kind.Model, Stream: s.Kind.Stream, Tokens: s.Kind.Tokens,
		})
	}
	b, err := json.Marshal(&n)
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return string(b), n.Limit
}

// read reads notes, the eldest gateway's first. Those of another release may be unreadable, and are left out.
func read(now time.Time, notes []Note) (list []*note) {
	for _, x := range notes {
		n := &note{}
		if json.Unmarshal([]byte(x.Text), n) != nil || n.ID == "" {
			continue
		}
		at := now.Add(-x.Age)
		if n.Read != nil {
			n.Read.at = at.Add(-time.Duration(n.Read.Ago) * time.Microsecond)
		}
		for _, w := range n.Samples[:min(len(n.Samples), mostTold)] {
			if !w.credible() {
				continue
			}
			n.samples = append(n.samples, sample{
				seq: w.Seq, at: at.Add(-time.Duration(w.Ago) * time.Microsecond),
				Sample: Sample{
					Began: at.Add(-time.Duration(w.Began) * time.Microsecond), Latency: time.Duration(w.Latency) * time.Microsecond,
					Running: w.Running, Full: w.Full, Kind: Kind{w.Model, w.Stream, w.Tokens},
				},
			})
		}
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *note) int {
		if a.after(b.member) {
			return 1
		}
		return -1
	})
	return list
}

// last is the number of the last sample.
func (n *note) last() int64 {
	if len(n.samples) == 0 {
		return 0
	}
	return n.samples[len(n.samples)-1].seq
}
