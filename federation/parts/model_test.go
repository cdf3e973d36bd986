package parts

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// playground is a small world, in which all that can happen is tried.
type playground struct {
	name         string
	kind         Kind
	limit, procs int64
	beats        int64   // of each process
	jumps        []int64 // what time may pass at once, each once
	crash, twice bool
	losses       int   // of the account's data
	tail         int64 // of claims on slots
	lasts        int64
	low          int64 // a limit that a process may have heard of instead; 0 if the limit does not move
}

// small is one state of a playground.
type small struct {
	g       *playground
	now     int64
	jumps   []int64
	account Account
	procs   []tiny
	crashed bool
	losses  int
	witness map[string]bool // instances that have to bring back what the last lost account promised; nil if that does not matter
	before  []Account       // the lost accounts
	turn    int             // how many beats have arrived
	came    map[string]int  // since when each instance has had something
	free    bool            // nobody is left who knows of a lost account
	mail    []note
	used    []int64 // when, by all that ever were
	beyond  bool    // where the limit moves: more was granted than the lowest that somebody claimed with
}

// tiny is a process. Of its calls it is known when they were let in; running ones that
// were let in before it was cut off are excused.
type tiny struct {
	h       Holder
	used    []int64
	excused int
	active  int64 // since this beat it has wanted more than it used
	heard   int   // the turn of the last answer that it knows, of an account that was not learning
}

// note is a beat or an answer on its way to or from a process.
type note struct {
	of    int
	beat  *Beat
	reply *Reply
	again bool // it was there once
	turn  int  // of an answer
}

func (w *small) clone() *small {
	c := *w
	c.account.Members = slices.Clone(w.account.Members)
	for i := range c.account.Members {
		c.account.Members[i].Holds = slices.Clone(c.account.Members[i].Holds)
	}
	c.account.Untold = slices.Clone(w.account.Untold)
	c.account.Tellers = slices.Clone(w.account.Tellers)
	c.witness = maps.Clone(w.witness)
	c.procs = slices.Clone(w.procs)
	c.mail = slices.Clone(w.mail)
	c.used = slices.Clone(w.used)
	c.jumps = slices.Clone(w.jumps)
	for i := range c.procs {
		c.procs[i].h.parts = maps.Clone(c.procs[i].h.parts)
		c.procs[i].h.kept = maps.Clone(c.procs[i].h.kept)
		c.procs[i].used = slices.Clone(c.procs[i].used)
	}
	return &c
}

// key tells states apart, but for when beats are due: they are told at any time.
func (w *small) key() [32]byte {
	slices.SortStableFunc(w.mail, func(a, b note) int { return a.of - b.of })
	b := put(nil, w.now, w.jumps, &w.account, w.crashed, w.losses, w.witness, w.free, w.used, w.beyond)
	if w.g.losses > 0 {
		b = put(b, w.turn, w.came, w.before)
	}
	for i := range w.procs {
		p := &w.procs[i]
		h := &p.h
		b = put(b, h.instance, h.seq, h.acked, h.parts, h.until.UnixMilli(), h.sent.lasts, h.sent.at.UnixMilli(), h.sent.claims)
		b = put(b, h.epoch, h.known, h.heard, h.learnt, h.kept, p.used, p.excused, p.active)
		if w.g.losses > 0 {
			b = put(b, p.heard)
		}
	}
	for _, m := range w.mail {
		b = put(b, m.of, m.again, m.beat, m.reply)
	}
	return sha256.Sum256(b)
}

// put appends all that the values hold, so that different states have different keys. It is apart from fmt, which a search would spend most
// of its time in.
func put(b []byte, values ...any) []byte {
	for _, v := range values {
		b = putValue(b, reflect.ValueOf(v))
	}
	return b
}

func putValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = putValue(b, v.Index(i))
		}
		return b
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, k := range keys {
			b = putValue(putValue(b, k), v.MapIndex(k))
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = putValue(b, v.Field(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return putValue(append(b, 1), v.Elem())
	}
	panic("model: no key of a " + v.Type().String())
}

func (w *small) clock() time.Time { return time.UnixMilli(w.now) }

// counts is what counts of when something was used.
func (w *small) counts(used []int64) (n int64) {
	for _, at := range used {
		if w.g.kind != Rolling || at+window > w.now {
			n++
		}
	}
	return n
}

func (w *small) over() bool {
	if w.free {
		return false
	}
	if w.beyond {
		return true
	}
	if w.g.kind != Slots {
		return w.counts(w.used) > w.g.limit
	}
	n := int64(0)
	for _, p := range w.procs {
		if w.clock().Before(p.h.Until()) {
			n += int64(len(p.used) - p.excused)
		}
	}
	return n > w.g.limit
}

// next tells of each step that can come now.
func (w *small) next(tell func(what string, next *small)) {
	for i := range w.procs {
		w.process(i, tell)
	}
	if w.losses < w.g.losses {
		c := w.clone()
		c.lose()
		tell("all is forgotten", c)
	}
	for k, m := range w.mail {
		if m.beat != nil && m.beat.Known == 0 && w.losses > 0 && !w.account.Lost && len(w.account.Tellers) == 0 {
			continue // a new account grants to those who know of none, until somebody tells that it is not the first
		}
		c := w.clone()
		if !w.g.twice || m.again {
			c.mail = slices.Delete(c.mail, k, k+1)
		} else {
			c.mail[k].again = true
		}
		c.deliver(m)
		tell(fmt.Sprintf("arrives %d %v", m.of, m.beat != nil), c)
	}
	for k, ms := range w.jumps {
		c := w.clone()
		c.now += ms
		c.jumps = slices.Delete(c.jumps, k, k+1)
		for i := range c.procs {
			if p := &c.procs[i]; !c.clock().Before(p.h.Until()) {
				p.excused = len(p.used)
			}
		}
		tell(fmt.Sprintf("%d ms pass", ms), c)
	}
}

// process tells what a process may do.
func (w *small) process(i int, tell func(what string, next *small)) {
	p := w.procs[i]
	used := w.counts(p.used)
	if p.h.seq < w.g.beats {
		for _, limit := range w.g.limits() {
			for _, want := range []int64{limit, 0} {
				c := w.clone()
				claims := []Claim{{Name: "x", Kind: w.g.kind, Limit: limit, Ends: 1e9, Used: used, Want: max(want, used), Tail: w.g.tail, Lasts: w.lasts(i)}}
				c.mail = append(c.mail, note{of: i, beat: c.procs[i].beat(c.clock(), claims)})
				tell(fmt.Sprintf("%d wants %d of %d", i, want, limit), c)
			}
		}
	}
	if used < p.h.Part(w.clock(), "x") {
		c := w.clone()
		c.procs[i].used = append(c.procs[i].used, c.now)
		if w.g.kind != Slots {
			c.used = append(c.used, c.now)
		}
		tell(fmt.Sprintf("%d uses one", i), c)
	}
	if w.g.kind == Slots && len(p.used) > 0 {
		c := w.clone()
		q := &c.procs[i]
		q.used = q.used[1:]
		q.excused = max(q.excused-1, 0)
		tell(fmt.Sprintf("%d ends one", i), c)
	}
	if w.g.crash && !w.crashed {
		c := w.clone()
		c.crashed = true
		c.free = c.free || len(c.witness) == 1 && c.witness[p.h.instance] && len(c.account.Tellers) == 0
		if c.witness[p.h.instance] {
			delete(c.witness, p.h.instance)
			c.free = c.free || c.newcomer()
		}
		c.procs[i] = tiny{h: *NewHolder("o", fmt.Sprint(i, "again"), 1)}
		c.mail = slices.DeleteFunc(c.mail, func(m note) bool { return m.of == i && m.reply != nil })
		tell(fmt.Sprintf("%d is started again", i), c)
	}
}

// lasts is for how long the next part of a process lasts: of every other beat.
func (w *small) lasts(i int) int64 { return w.g.lasts * ((w.procs[i].h.seq + 1) % 2) }

// beat makes a process's next beat.
func (p *tiny) beat(now time.Time, claims []Claim) *Beat {
	b := p.h.Beat(now, true, claims)
	if claims[0].Want <= claims[0].Used {
		p.active = b.Seq + 1
	}
	return b
}

// lose forgets the account. What it promised is known to those whom it regarded: who were heard of within a
// TTL, and have wanted more than they used since the last answer that they know.
func (w *small) lose() {
	w.losses++
	w.now++ // no two accounts begin at the same time
	witness := map[string]bool{}
	for _, p := range w.procs {
		knows := p.h.known == w.account.Epoch || w.account.Lost && w.witness[p.h.instance]
		for _, m := range w.account.Members {
			regarded := m.Instance == p.h.instance && m.Seen+ttl >= w.now
			if knows && regarded && p.h.learnt >= p.active {
				witness[p.h.instance] = true
			}
		}
		if len(w.account.Members) == 0 && w.witness[p.h.instance] {
			witness[p.h.instance] = true
		}
	}
	known := len(witness) > 0 || w.account.Epoch == 0 && w.losses == 1
	w.free = w.free || !known
	w.witness = witness
	w.before = append(slices.Clone(w.before), w.account)
	w.account = Account{}
	w.free = w.free || w.newcomer()
}

// newcomer reports whether somebody had a part of a lost account who came after all answers that are known to
// those who are left.
func (w *small) newcomer() bool {
	latest := 0
	for _, p := range w.procs {
		if w.witness[p.h.instance] {
			latest = max(latest, p.heard)
		}
	}
	for _, a := range w.before {
		for _, m := range a.Members {
			if len(m.Holds) > 0 && m.Holds[0].belief() > 0 && w.came[m.Instance] > latest {
				return true
			}
		}
	}
	return false
}

func (w *small) deliver(m note) {
	if m.reply != nil {
		p := &w.procs[m.of]
		if p.h.Answered(w.clock(), m.reply) && !m.reply.Learning {
			p.heard = m.turn
		}
		return
	}
	r := w.account.Beat(w.now, m.beat)
	w.beyond = w.g.low > 0 && w.grantedBeyond(m.beat, &r)
	if w.g.losses > 0 {
		w.witnessed()
	}
	if r.Seq > 0 && m.beat.Instance == w.procs[m.of].h.instance {
		w.mail = append(w.mail, note{of: m.of, reply: &r, turn: w.turn})
	}
}

// limits are those that a process may claim with.
func (g *playground) limits() []int64 {
	if g.low > 0 {
		return []int64{g.limit, g.low}
	}
	return []int64{g.limit}
}

// grantedBeyond reports whether a process got more than it had although all together may then have more than the lowest
// limit of those that are heard of.
func (w *small) grantedBeyond(b *Beat, r *Reply) bool {
	if r.Seq == 0 || r.Parts[0].Part <= b.Claims[0].Part {
		return false
	}
	least := w.g.limit
	sum := int64(0)
	for _, m := range w.account.Members {
		for _, h := range m.Holds {
			sum += max(h.High, h.Used)
			if h.expires() >= w.account.Now {
				least = min(least, h.Limit)
			}
		}
	}
	return sum > least
}

// witnessed notes who has something since when, and whether those have told who know of a lost account.
func (w *small) witnessed() {
	w.turn++
	a := &w.account
	if len(a.Tellers) > 0 && !a.Lost && !slices.ContainsFunc(a.Tellers, func(i string) bool { return w.witness[i] }) {
		w.free = true // only others have told in time
	}
	w.came = maps.Clone(w.came)
	for _, m := range w.account.Members {
		switch {
		case len(m.Holds) == 0:
			delete(w.came, m.Instance)
		case w.came[m.Instance] == 0:
			w.came[m.Instance] = w.turn
		}
	}
}

// search visits states, each once.
type search struct {
	seen map[[32]byte]struct{}
	most int
	path []string
	bad  string
}

func (s *search) visit(w *small) {
	if s.bad != "" || len(s.seen) >= s.most {
		return
	}
	key := w.key()
	if _, there := s.seen[key]; there {
		return
	}
	s.seen[key] = struct{}{}
	if w.over() {
		s.bad = strings.Join(s.path, "\n")
		return
	}
	w.next(func(what string, next *small) {
		s.path = append(s.path, what)
		s.visit(next)
		s.path = s.path[:len(s.path)-1]
	})
}

// begin is the state in which a playground begins.
func (g *playground) begin() *small {
	w := &small{g: g, now: 1_000_000, jumps: g.jumps, came: map[string]int{}}
	for i := range g.procs {
		w.procs = append(w.procs, tiny{h: *NewHolder("o", fmt.Sprint(i), 1)})
	}
	return w
}

// TestModel: whatever happens in a small world, no more is used than the limit. Where the limit moves, as an adaptive one does, processes
// hear of that one after the other, and nothing is granted beyond the lowest limit that any of them has heard of.
func TestModel(t *testing.T) {
	most := testkit.Rounds(500, 2_000)
	if *wholeSearch {
		most = 2_000_000
	}
	ttl := TTL.Milliseconds()
	for _, g := range []playground{
		{name: "slots", kind: Slots, limit: 1, procs: 2, beats: 2, jumps: []int64{ttl / 2, ttl/2 + 1}},
		{name: "slots twice", kind: Slots, limit: 1, procs: 2, beats: 2, jumps: []int64{ttl + 1}, twice: true},
		{name: "slots given back", kind: Slots, limit: 1, procs: 2, beats: 3},
		{name: "slots move", kind: Slots, limit: 2, low: 1, procs: 2, beats: 2},
		{name: "rolling", kind: Rolling, limit: 1, procs: 2, beats: 2, jumps: []int64{ttl - 10, window}},
		{name: "rolling crash", kind: Rolling, limit: 1, procs: 2, beats: 1, jumps: []int64{ttl - 10, window, 20}, crash: true},
		{name: "rolling lasts", kind: Rolling, limit: 1, procs: 2, beats: 1, jumps: []int64{12_000, window - 9000}, lasts: 20_000},
		{name: "slots last", kind: Slots, limit: 1, procs: 2, beats: 2, jumps: []int64{12_000}, lasts: 20_000},
		{name: "period crash", kind: Period, limit: 1, procs: 2, beats: 2, jumps: []int64{ttl + window + 1}, crash: true},
		{name: "two", kind: Period, limit: 2, procs: 2, beats: 2},
		{name: "slots lost", kind: Slots, limit: 2, procs: 2, beats: 3, jumps: []int64{ttl + 1}, losses: 1, tail: 2 * ttl},
		{name: "rolling lost", kind: Rolling, limit: 2, procs: 2, beats: 3, jumps: []int64{ttl + 1}, losses: 1, crash: true},
		{name: "period lost", kind: Period, limit: 2, procs: 2, beats: 3, jumps: []int64{ttl + 1}, losses: 1, crash: true},
		{name: "period lost twice", kind: Period, limit: 3, procs: 2, beats: 4, jumps: []int64{ttl / 2, ttl + 1}, losses: 2, crash: true},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			s := &search{seen: map[[32]byte]struct{}{}, most: most}
			if g.losses > 0 {
				s.most = min(most, 500_000) // they are large, and TestLost goes deeper
			}
			began := time.Now()
			s.visit(g.begin())
			t.Logf("%8d states, all: %v, %v", len(s.seen), len(s.seen) < s.most, time.Since(began).Round(time.Millisecond))
			if s.bad != "" {
				t.Errorf("more than the limit is used after:\n%s", s.bad)
			}
		})
	}
}
