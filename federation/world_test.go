package federation

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// world is a small world of production nodes and a production account, in which anything
// may happen that can: any message arrives at any time after it was sent, in any order, or
// never, and some twice. So a loss, a delay and a partition are no actions of their own,
// nor is a process that pauses.
//
// It is a value: a step copies what it changes.
type world struct {
	rules   *playground
	told    bool // what happens is told
	tick    int
	server  int // number of the server that remembers
	copy    *Account
	account *Account
	procs   []*proc
	beats   []*Beat
	replies []Reply
	used    []int // by tick
	twice   int   // messages that were there twice
}

// playground is what can happen in a world.
type playground struct {
	name           string
	rules          Rules
	tick           time.Duration
	limit          int64
	names          int // of nodes
	procs          int // ever, at most
	ticks, seqs    int
	fresh          bool
	servers        int // ever, at most
	expect         int
	wishes         []Envelope
	crash, fork    bool  // a process dies and begins anew; two have one name
	refund, settle bool  // calls give back; calls count when they end
	old            bool  // another server may remember less
	back           int64 // by how many slots the store's clock is put back, at the first tick
	running        bool  // the processes have joined before it begins
	renamed        bool  // who comes instead of a process that dies has another name
	late           bool  // what is superseded arrives as well
	twice          int   // messages that may arrive twice
	prompt         bool  // what is sent arrives at once or never
}

// proc is a process: its node, and a pool that is as small as can be.
type proc struct {
	name      int
	node      *Node
	dead      bool
	allowance escrow.Allowance
	spent     int64
	booked    map[int]int64 // by tick
	held      []unit
}

// unit is a call that runs and counts when it ends.
type unit struct {
	seq   int64 // of the first beat that tells of it
	until int   // tick until which it may end though nobody was told
}

func newWorld(g *playground) *world {
	w := &world{rules: g, used: make([]int, g.ticks+1)}
	born := w.clock() - g.back*g.rules.slot() // else it learns again when the clock is put back
	w.account = NewAccount(g.rules, born, Options{Incarnation: "0", Fresh: g.fresh})
	for name := range g.names {
		p := w.proc(name)
		w.procs = append(w.procs, p)
		if g.running {
			b := p.node.Step(w.now(), w.report(p))[0].(Send).Beat
			m, r := w.account.receive(w.clock(), "0", g.expect, b)
			r = w.account.answered(m, r)
			p.node.Step(w.now(), &r)
		}
	}
	return w
}

func (w *world) proc(name int) *proc {
	return &proc{name: name, booked: map[int]int64{}, node: NewNode(Config{
		Name: fmt.Sprint("n", name), Instance: fmt.Sprint("i", len(w.procs)), Rules: w.rules.rules,
	})}
}

// clock is the store's, and now that of the processes.
func (w *world) clock() int64 {
	ms := 1000 + w.rules.rules.slot()/4 + int64(w.tick)*w.rules.tick.Milliseconds()
	if w.tick > 0 {
		ms -= w.rules.back * w.rules.rules.slot()
	}
	return ms
}

func (w *world) now() time.Time { return t0.Add(time.Duration(w.tick) * w.rules.tick) }

func (w *world) copied() *world {
	c := *w
	c.procs = slices.Clone(w.procs)
	c.beats = slices.Clone(w.beats)
	c.replies = slices.Clone(w.replies)
	c.used = slices.Clone(w.used)
	return &c
}

// change makes a copy in which one process may be changed.
func (w *world) change(i int) (*world, *proc) {
	c := w.copied()
	p := *w.procs[i]
	n := *p.node
	n.unsure, n.placed, n.demands = maps.Clone(n.unsure), maps.Clone(n.placed), newDemands()
	p.node = &n
	p.booked = maps.Clone(p.booked)
	p.held = slices.Clone(p.held)
	c.procs[i] = &p
	return c, &p
}

func copyAccount(a *Account) *Account {
	c := *a
	c.Booked = slices.Clone(a.Booked)
	c.Gone = slices.Clone(a.Gone)
	c.Members = make(map[string]*Member, len(a.Members))
	for name, m := range a.Members {
		d := *m
		d.Booked = slices.Clone(m.Booked)
		c.Members[name] = &d
	}
	return &c
}

// next tells of all worlds that may come of this one, and by what.
func (w *world) next(tell func(what string, next *world)) {
	g := w.rules
	for i, p := range w.procs {
		if p.dead {
			continue
		}
		w.act(i, tell)
	}
	for j := range w.beats {
		w.deliver(j, tell)
	}
	for j := range w.replies {
		w.answer(j, tell)
	}
	w.lose(tell)
	if g.old && w.server+1 < g.servers {
		if w.copy == nil {
			c := w.copied()
			c.copy = w.account
			tell("the store is copied", c)
		} else {
			c := w.copied()
			c.account = copyAccount(w.copy)
			c.copy = nil
			c.server++
			tell("the store goes back to the copy", c)
		}
	}
	if w.tick < g.ticks {
		tell("tick", w.ticked())
	}
}

// lose tells of the world in which the store has lost everything.
func (w *world) lose(tell func(string, *world)) {
	g := w.rules
	if w.server+1 >= g.servers || g.old || !w.survived() {
		return
	}
	c := w.copied()
	c.server++
	c.account = NewAccount(g.rules, w.clock(), Options{Incarnation: fmt.Sprint(c.server)})
	tell("the store loses all", c)
}

// ticked is the world a tick later.
func (w *world) ticked() *world {
	c := w.copied()
	c.tick++
	c.account = copyAccount(w.account)
	c.account.Now = max(c.account.Now, c.clock())
	c.account.age() // as the next beat would
	return c
}

// walk goes one way through a playground, at random: in each tick a few processes do something. It comes further than a
// search, which tries everything at once. It returns how it came to what must not be.
func walk(g *playground, seed uint64) (bad string) {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(g)
	w.told = true
	var path []string
	var to []*world
	var by []string
	tell := func(what string, next *world) {
		to = append(to, next)
		by = append(by, what)
	}
	follow := func() {
		if len(to) > 0 {
			i := rng.IntN(len(to))
			path = append(path, fmt.Sprintf("tick %d: %s", w.tick, by[i]))
			w = to[i]
		}
		to = to[:0]
		by = by[:0]
	}
	for ; w.tick < g.ticks; w = w.ticked() {
		for range rng.IntN(4 * g.names) {
			i := rng.IntN(len(w.procs))
			if !w.procs[i].dead {
				w.act(i, tell)
			}
			follow()
			if w.over() {
				return "after:\n" + strings.Join(path, "\n")
			}
		}
		if rng.IntN(4) == 0 {
			w.lose(tell)
			follow()
		}
	}
	return ""
}

// survived reports whether all may be lost: not where a new memory may grant before a
// Window has passed, if nobody is left who knows of the old one. Where it can be so, the
// first process never dies.
func (w *world) survived() bool {
	return w.rules.expect == 0 || w.procs[0].node.epoch > 0 && w.account.Epoch < w.clock()
}

// mortal reports whether a process may die.
func (w *world) mortal(i int) bool {
	g := w.rules
	return (g.crash || g.fork) && len(w.procs) < g.procs && (i > 0 || g.expect == 0 || g.old || g.servers == 1)
}

// act tells what a process may do of itself.
func (w *world) act(i int, tell func(string, *world)) {
	g := w.rules
	p := w.procs[i]
	if !p.node.fenced && p.node.seq < int64(g.seqs) {
		c, q := w.change(i)
		b := q.node.Step(w.now(), w.report(p))[0].(Send).Beat
		c.beats = append(c.beats, b)
		if !g.late { // answers to beats before this one are not taken
			c.replies = slices.DeleteFunc(c.replies, func(r Reply) bool { return r.Instance == b.Instance })
			m := w.account.Members[b.Node]
			c.beats = slices.DeleteFunc(c.beats, func(o *Beat) bool { return m != nil && o.Instance == m.Instance && o.Seq <= m.Seq })
		}
		what := ""
		if w.told {
			what = fmt.Sprintf("%s beats: %d, full %t, sent %d, booked %v, past %d, held %v, holds %v", b.Instance, b.Seq, b.Full, b.Sent, b.Booked, b.Past, b.Held, b.Holding[0])
		}
		if g.prompt {
			c.prompt(what, tell)
		} else {
			tell(what, c)
		}
	}
	if !p.node.fenced && p.allowance.Left(w.now(), p.spent) > 0 {
		c, q := w.change(i)
		q.spent++
		if g.settle {
			until := int(p.allowance.Until.Sub(t0) / g.tick)
			q.held = append(q.held, unit{q.node.seq + 1, until})
		} else {
			q.booked[w.tick]++
			c.used[w.tick]++
		}
		tell(p.node.cfg.Instance+" uses one", c)
	}
	if len(p.held) > 0 && w.ends(p, p.held[0]) {
		c, q := w.change(i)
		q.held = q.held[1:]
		q.booked[w.tick]++
		c.used[w.tick]++
		tell(p.node.cfg.Instance+" ends one", c)
	}
	if g.refund {
		for at, n := range p.booked {
			if n > 0 && w.tick-at < w.span() {
				c, q := w.change(i)
				q.booked[at]--
				c.used[at]--
				tell(fmt.Sprint(p.node.cfg.Instance, " gives back one of tick ", at), c)
			}
		}
	}
	if w.mortal(i) {
		c, q := w.change(i)
		for _, u := range q.held { // who counts them sees that they end
			if w.ends(p, u) {
				c.used[w.tick]++
			}
		}
		q.dead = g.crash
		q.held = nil
		name := p.name
		if g.renamed {
			name = len(c.procs)
		}
		c.procs = append(c.procs, c.proc(name))
		tell(p.node.cfg.Instance+" has a successor", c)
	}
}

// prompt tells what comes of the only beat that is under way: it arrives now or never, and so does its answer.
func (w *world) prompt(what string, tell func(string, *world)) {
	lost := w.copied()
	lost.beats = nil
	tell(what+"; it is lost", lost)
	w.deliver(0, func(arrives string, c *world) {
		if len(c.replies) == 0 {
			return
		}
		c.answer(0, func(answer string, d *world) { tell(what+"; "+arrives+"; "+answer, d) })
		c.replies = nil
		tell(what+"; "+arrives+"; the answer is lost", c)
	})
}

// ends reports whether a call may end now: in time, or when the store knows of it.
func (w *world) ends(p *proc, u unit) bool {
	m := w.account.Members[p.node.cfg.Name]
	return w.tick <= u.until || m != nil && m.Instance == p.node.cfg.Instance && m.Seq >= u.seq
}

// report is what a process's pool tells.
func (w *world) report(p *proc) *Report {
	r := &Report{Limits: Amounts{w.rules.limit}, Burst: Amounts{w.rules.limit}, Spent: Amounts{p.spent}, Held: Amounts{int64(len(p.held))}}
	if w.rules.refund {
		for at, n := range p.booked {
			if w.tick-at <= w.span() {
				r.Refundable[0] += n
			}
		}
	}
	r.Holding[0] = Holding{Left: p.allowance.Left(w.now(), p.spent), Rate: p.allowance.Rate / w.shorter(), Until: p.allowance.Until}
	for at, n := range p.booked {
		if n > 0 && w.tick-at <= w.span() {
			end := t0.Add(time.Duration(at)*w.rules.tick + w.rules.tick/2)
			r.Bookings = append(r.Bookings, escrow.Booking{End: end, Cost: n})
		}
	}
	return r
}

// deliver lets a beat arrive. How much its node gets is anybody's guess: of that safety
// must not depend.
func (w *world) deliver(j int, tell func(string, *world)) {
	wishes := w.rules.wishes
	b := w.beats[j]
	for x := 0; x < len(wishes); x++ {
		c := w.copied()
		c.account = copyAccount(w.account)
		m, r := c.account.receive(w.clock(), fmt.Sprint(w.server), w.rules.expect, b)
		if r.Status == Granted && m != nil {
			r.Grant[0] = c.account.cut(m, 0, w.rules.limit, wishes[x])
		} else {
			x = len(wishes)
		}
		if m != nil {
			r = c.account.answered(m, r)
		}
		heard := c.hear(r)
		if !heard && m == nil && c.account.Epoch == w.account.Epoch {
			return // nothing came of it
		}
		what := ""
		if w.told {
			what = fmt.Sprintf("beat %d of %s arrives: %s %v", b.Seq, b.Instance, r.Status, r.Grant[0])
		}
		if w.twice < w.rules.twice {
			d := c.copied()
			d.twice++
			tell(what, d)
		}
		c.beats = slices.Delete(c.beats, j, j+1)
		tell(what, c)
	}
}

func (w *world) owner(instance string) int {
	return slices.IndexFunc(w.procs, func(p *proc) bool { return p.node.cfg.Instance == instance })
}

// hear adds a reply to those on their way, unless it makes no difference.
func (w *world) hear(r Reply) bool {
	p := w.procs[w.owner(r.Instance)]
	granted := r.Status == Granted || r.Status == Learning
	if p.dead || p.node.fenced || r.Status == Stale || (!granted || !w.rules.late) && r.Seq != p.node.seq || slices.ContainsFunc(w.replies, func(o Reply) bool { return same(o, r) }) {
		return false
	}
	w.replies = append(w.replies, r)
	return true
}

func same(a, b Reply) bool {
	return a.Status == b.Status && a.Instance == b.Instance && a.Seq == b.Seq && a.Epoch == b.Epoch && a.Now == b.Now && a.Until == b.Until && a.Grant == b.Grant && bytes.Equal(a.Digest, b.Digest)
}

// answer lets a reply arrive.
func (w *world) answer(j int, tell func(string, *world)) {
	r := w.replies[j]
	i := w.owner(r.Instance)
	if w.procs[i].dead {
		return
	}
	c, p := w.change(i)
	commands := p.node.Step(w.now(), &r)
	for _, x := range commands {
		if x, ok := x.(Allow); ok && x.Axis == 0 {
			p.allowance = x.Allowance
			p.allowance.Rate *= w.shorter()
		}
	}
	if was := w.procs[i].node; p.node.acked == was.acked && p.node.epoch == was.epoch && p.node.fenced == was.fenced && len(commands) == 0 {
		return // it was not for this process, or came too late
	}
	what := ""
	if w.told {
		what = fmt.Sprintf("%s has the answer to %d: %s %v", r.Instance, r.Seq, r.Status, r.Grant[0])
	}
	if w.twice < w.rules.twice {
		d := c.copied()
		d.twice++
		tell(what, d)
	}
	c.replies = slices.Delete(c.replies, j, j+1)
	tell(what, c)
}

// span is how many ticks are in a Window.
func (w *world) span() int { return int(w.rules.rules.Window / w.rules.tick) }

// shorter is how often a Window fits into that of a pool, which reckons rates by its own.
func (w *world) shorter() int64 { return int64(escrow.Window / w.rules.rules.Window) }

// over reports whether more than the limit was used within a Window.
func (w *world) over() bool {
	sum := 0
	for at := max(0, w.tick-w.span()+1); at <= w.tick; at++ {
		sum += w.used[at]
	}
	return int64(sum) > w.rules.limit
}

// key is the world, but for what can make no difference any more.
func (w *world) key() [16]byte {
	b := make([]byte, 0, 1024)
	put := func(x ...int64) {
		for _, x := range x {
			b = binary.AppendVarint(b, x)
		}
	}
	put(int64(w.tick), int64(w.server), int64(w.twice))
	for at := max(0, w.tick-w.span()+1); at <= w.tick; at++ {
		put(int64(w.used[at]))
	}
	b = putAccount(b, w.account)
	if w.copy != nil {
		b = putAccount(b, w.copy)
	}
	if w.rules.servers > 1 {
		b = w.putCopies(b)
	}
	for _, p := range w.procs {
		b = w.putProc(b, p)
	}
	var mail [][]byte
	for _, x := range w.beats {
		mail = append(mail, putBeat(nil, x))
	}
	for _, r := range w.replies {
		if !w.procs[w.owner(r.Instance)].dead {
			mail = append(mail, putReply(nil, r))
		}
	}
	slices.SortFunc(mail, bytes.Compare)
	sum := sha256.Sum256(append(b, bytes.Join(mail, []byte("|"))...))
	return [16]byte(sum[:])
}

func (w *world) putProc(b []byte, p *proc) []byte {
	put := func(x ...int64) {
		for _, x := range x {
			b = binary.AppendVarint(b, x)
		}
	}
	n := p.node
	put(int64(p.name), bit(p.dead), bit(n.fenced))
	if p.dead || n.fenced {
		return b
	}
	put(bit(n.joined), bit(n.full), n.seq, n.acked, n.epoch, n.store, n.past)
	put(int64(n.sentAt.Sub(t0)), int64(n.gotAt.Sub(t0)), int64(n.first.Sub(t0)), int64(n.sent.at.Sub(t0)), p.spent-n.sent.spent[0], n.sent.parts[0])
	b = putBook(putBook(b, n.sent.booked), n.known)
	for _, slot := range slices.Sorted(maps.Keys(n.unsure)) {
		put(slot)
	}
	put(-1)
	for _, end := range slices.Sorted(maps.Keys(n.placed)) {
		put(end, n.placed[end].slot, n.placed[end].used[0])
	}
	put(-1)
	for at := max(0, w.tick-w.span()); at <= w.tick; at++ {
		put(p.booked[at])
	}
	for _, u := range p.held {
		put(u.seq, int64(u.until))
	}
	put(-1)
	if w.now().Before(p.allowance.Until) {
		put(p.allowance.Level+p.allowance.Spent-p.spent, p.allowance.Rate, int64(p.allowance.Since.Sub(t0)), int64(p.allowance.Until.Sub(t0)))
	}
	return b
}

// putCopies adds what matters only if a memory can be lost.
func (w *world) putCopies(b []byte) []byte {
	b = binary.AppendVarint(b, w.account.Turn)
	if before := w.account.Before; before != nil {
		b = append(b, before.Digest.encode()...)
		b = putBook(binary.AppendVarint(binary.AppendVarint(b, before.Age), before.Shift), before.Counted)
		b = binary.AppendVarint(binary.AppendVarint(b, before.CountedIn), bit(before.Late))
	}
	for _, name := range w.account.names() {
		m := w.account.Members[name]
		b = binary.AppendVarint(b, m.Refundable[0])
		if m.Copy != nil {
			b = putCopy(b, &m.Copy.Copy)
			b = binary.AppendVarint(b, m.Copy.Epoch)
		}
	}
	for _, p := range w.procs {
		k := &p.node.kept
		if p.dead || p.node.fenced || k.epoch == 0 {
			continue
		}
		b = append(b, k.digest...)
		b = putBook(putBook(b, k.booked), k.last.booked)
		for _, x := range []int64{k.epoch, k.clock.store, int64(k.clock.sentAt.Sub(t0)), int64(k.clock.gotAt.Sub(t0)), k.held[0], k.refundable[0], k.may[0], k.less[0], k.least[0], k.refunded[0], k.last.held[0]} {
			b = binary.AppendVarint(b, x)
		}
	}
	for _, x := range w.beats {
		if x.Copy != nil {
			b = append(putCopy(b, x.Copy), x.Instance...)
		}
	}
	for _, r := range w.replies {
		b = append(b, r.Digest...)
	}
	return b
}

func putCopy(b []byte, c *Copy) []byte {
	b = putBook(append(b, c.Digest...), c.Booked)
	for _, x := range []int64{c.Age, c.Shift, c.Held[0], c.Refundable[0], c.May[0], c.Refunded[0]} {
		b = binary.AppendVarint(b, x)
	}
	return b
}

func bit(x bool) int64 {
	if x {
		return 1
	}
	return 0
}

func putBook(b []byte, k book) []byte {
	for _, x := range k {
		b = binary.AppendVarint(binary.AppendVarint(b, x.Slot), x.Used[0])
	}
	return binary.AppendVarint(b, -1)
}

func putEnvelope(b []byte, e Envelope) []byte {
	for _, x := range []int64{e.Level, e.Rate, e.Left} {
		b = binary.AppendVarint(b, x)
	}
	return b
}

func putAccount(b []byte, a *Account) []byte {
	b = append(append(b, a.Incarnation...), '|')
	for _, x := range []int64{a.Epoch, bit(a.Lost), a.Born, max(0, a.Learning-a.Now), a.Now} {
		b = binary.AppendVarint(b, x)
	}
	b = putBook(putBook(b, a.Booked), a.Gone)
	for _, name := range a.names() {
		m := a.Members[name]
		b = append(append(append(append(b, name...), '|'), m.Instance...), '|')
		for _, x := range []int64{m.Seq, m.Sent, m.Seen, m.Joined, m.Past, m.Held[0], m.Parts[0]} {
			b = binary.AppendVarint(b, x)
		}
		b = putEnvelope(putEnvelope(putBook(b, m.Booked), m.Holding[0]), m.Grant[0])
		b = putReply(b, m.Last)
	}
	return b
}

func putReply(b []byte, r Reply) []byte {
	b = append(append(append(b, r.Status...), '|'), r.Instance...)
	for _, x := range []int64{r.Seq, r.Epoch, r.Now, r.Until} {
		b = binary.AppendVarint(b, x)
	}
	return putEnvelope(b, r.Grant[0])
}

func putBeat(b []byte, x *Beat) []byte {
	b = append(append(b, x.Instance...), '|')
	for _, v := range []int64{bit(x.Join), x.Seq, x.Acked, x.Epoch, bit(x.Full), x.Sent, x.Joined, x.Past, x.Held[0], x.Parts[0]} {
		b = binary.AppendVarint(b, v)
	}
	return putEnvelope(putBook(b, x.Booked), x.Holding[0])
}

// search looks at every world that may come of the first one, deep before wide, until
// there are so many, or one has used too much. With a seed it goes its ways in another
// order.
type search struct {
	seen map[[16]byte]struct{}
	most int
	rng  *rand.Rand
	told bool
	path []string
	bad  string
}

// explore searches a playground. How it came to what must not be is found by searching
// again the same way, for telling costs more than searching.
func explore(g *playground, most int, seed uint64) *search {
	s := &search{}
	for _, told := range []bool{false, true} {
		again := &search{seen: map[[16]byte]struct{}{}, most: most, told: told}
		if seed > 0 {
			again.rng = rand.New(rand.NewPCG(seed, 1))
		}
		w := newWorld(g)
		w.told = told
		again.visit(w)
		s = again
		if s.bad == "" {
			break
		}
	}
	return s
}

func (s *search) visit(w *world) {
	if s.bad != "" || s.most > 0 && len(s.seen) >= s.most {
		return
	}
	key := w.key()
	if _, there := s.seen[key]; there {
		return
	}
	s.seen[key] = struct{}{}
	if w.over() {
		s.bad = "after:\n" + strings.Join(s.path, "\n")
		return
	}
	type step struct {
		what string
		to   *world
	}
	var steps []step
	w.next(func(what string, next *world) { steps = append(steps, step{what, next}) })
	if s.rng != nil {
		s.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	for i := range steps {
		s.path = append(s.path, "tick "+strconv.Itoa(w.tick)+": "+steps[i].what)
		s.visit(steps[i].to)
		s.path = s.path[:len(s.path)-1]
		steps[i].to = nil
	}
}
