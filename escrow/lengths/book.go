package lengths

import "math"

// Kind is the set of names by which calls are told apart. Each name may be empty.
type Kind struct {
	Tenant string
	Tier   string // of the tenant: whose calls are like its own
	Model  string
}

// Config says how a Book learns. The zero value is right for most callers.
type Config struct {
	// MaxKinds bounds memory: how many kinds are known, counting a tenant's, its
	// tier's and its model's each. A kind takes 64 bytes for each bin that its calls
	// have entered: at most 5 kB if they may take 4096, 9 kB at 2²⁰. Default 4096.
	MaxKinds int
	// Enough is how many completions a kind, its tier or its model must have
	// had before anything but the most is expected. Default 20.
	Enough int64
	// HalfLife is after how many ends of a kind the past counts half.
	// Default 693: as if every end made all before count 0.1 % less.
	HalfLife int64
}

const (
	defaultKinds    = 4096
	defaultEnough   = 20
	defaultHalfLife = 693

	// ownMind is after how many completions of its own a kind takes in what its
	// parent has learned only when it has news itself.
	ownMind = 100
)

// Book learns how long calls of each kind get, in any unit. It is not safe for
// concurrent use. Nothing here allocates for a kind that is known.
type Book struct {
	cfg     Config
	index   map[key]int32
	nodes   []node // [0] is nobody
	latest  Place  // of the kind that was asked for last without a Place
	novices list   // nodes that nothing pins, by whether they had Enough
	experts list
	learned int // nodes that had Enough
	doubts  int64
	looking bool
}

// Stream is one call that runs. Its owner keeps it until End and does not copy
// it. The zero Stream is one that has ended.
type Stream struct {
	node int32  // 0: nobody learns from it
	gen  uint32 // of the node, lest it be another's by now
	bin  int32  // how far it came
	eras [levels]uint32
	most int64
}

// New returns a Book that has learned nothing.
func New(cfg Config) *Book {
	if cfg.MaxKinds <= 0 {
		cfg.MaxKinds = defaultKinds
	}
	if cfg.Enough <= 0 {
		cfg.Enough = defaultEnough
	}
	if cfg.HalfLife <= 0 {
		cfg.HalfLife = defaultHalfLife
	}
	return &Book{cfg: cfg, index: make(map[key]int32), nodes: make([]node, 1)}
}

// Start begins a call that may take at most so much. Every Start needs an End:
// a kind with calls running is never forgotten.
func (b *Book) Start(k Kind, most int64) Stream { return b.StartAt(&b.latest, k, most) }

// StartAt is Start for a kind that is looked for at a place first.
func (b *Book) StartAt(at *Place, k Kind, most int64) Stream {
	s := Stream{most: max(most, 0)}
	key := keyOf(k, s.most)
	s.node = b.at(key, at)
	if s.node == 0 {
		s.node = b.learn(key)
	}
	if s.node == 0 {
		return s
	}
	s.gen = b.nodes[s.node].gen
	b.pin(s.node)
	level := 0
	for i := s.node; i != 0; i = b.nodes[i].parent {
		n := &b.nodes[i]
		if n.most < s.most {
			n.most = s.most
			n.news = n.due
		}
		n.begin()
		s.eras[level] = n.era
		level++
	}
	b.refresh(s.node)
	return s
}

// Expect is how long the call is expected to get, from its kind alone: 0 to most,
// rounded up; most, as long as too little is known.
func (b *Book) Expect(s *Stream) int64 {
	return b.ask(s, 0)
}

// Reach says that the call has produced so much in all, and runs. It returns how
// long it is expected to get now: at least produced, and at most the greater of
// produced and its most. As long as too little is known that is most.
func (b *Book) Reach(s *Stream, produced int64) int64 {
	produced = max(produced, 0)
	if to := int32(binOf(min(produced, s.most))); to > s.bin && b.runs(s) {
		b.advance(s, to)
	}
	return b.ask(s, produced)
}

// End ends the call. whole says that actual is how long it got by itself, or by
// reaching its most; else it was cut off there and might have gone on, so
// that it only teaches that calls get that long. Ending twice does nothing.
func (b *Book) End(s *Stream, actual int64, whole bool) {
	if !b.runs(s) {
		return
	}
	actual = min(actual, s.most)
	if to := int32(binOf(actual)); to > s.bin {
		b.advance(s, to)
	}
	actual = max(actual, floorOf(int(s.bin)))
	level := 0
	for i := s.node; i != 0; i = b.nodes[i].parent {
		w := weight(s.eras[level], b.nodes[i].era)
		hazard := b.step(i, int(s.bin)).hazard
		if whole {
			b.nodes[i].complete(int(s.bin), w, hazard, actual)
			if b.nodes[i].whole == b.cfg.Enough {
				b.learned++
			}
		} else {
			b.nodes[i].cut(int(s.bin), w, hazard)
		}
		b.age(i)
		level++
	}
	b.unpin(s.node)
	s.node = 0
}

// age forgets: with every end a little, and much when what happens is not what
// was expected. In both, no faster than one set of running calls follows another:
// a shorter memory would know how calls begin, and not how they go on.
func (b *Book) age(i int32) {
	n := &b.nodes[i]
	n.ends++
	if n.ends >= max(b.cfg.HalfLife, n.running) {
		n.fade(1)
		n.ends = 0
	}
	if n.observed < max(doubtEvery, n.running) {
		return
	}
	// A kind's first calls were compared with hardly more than the prior.
	if n.whole > 2*n.observed && n.surprised() {
		n.fade(doubtFades)
		b.doubts++
	}
	n.expected = 0
	n.observed = 0
	n.news = n.due
	b.refresh(i)
}

// Stats counts the kinds and the events of a Book.
type Stats struct {
	Kinds   int   // known now, at all levels
	Running int64 // calls that were started and have not ended
	Doubts  int64 // how often most of the knowledge about one was forgotten
}

// Stats returns the counts as of now. O(kinds).
func (b *Book) Stats() Stats {
	s := Stats{Kinds: len(b.index), Doubts: b.doubts}
	for i := range b.nodes {
		if n := &b.nodes[i]; i != 0 && n.parent == 0 { // the level that all calls count at
			s.Running += n.running
		}
	}
	return s
}

// runs says whether anybody learns from s.
func (b *Book) runs(s *Stream) bool {
	return s.node != 0 && int(s.node) < len(b.nodes) && b.nodes[s.node].gen == s.gen
}

// advance counts that s entered all bins up to to.
func (b *Book) advance(s *Stream, to int32) {
	level := 0
	for i := s.node; i != 0; i = b.nodes[i].parent {
		n := &b.nodes[i]
		risk := b.step(i, int(to)).risk - b.step(i, int(s.bin)).risk
		n.advance(int(s.bin), int(to), weight(s.eras[level], n.era), risk)
		s.eras[level] = n.era
		level++
	}
	s.bin = to
}

// ask is how long s gets if it has produced so much.
func (b *Book) ask(s *Stream, produced int64) int64 {
	most := max(s.most, produced)
	if !b.runs(s) || !b.knows(s.node) {
		return most
	}
	n := &b.nodes[s.node]
	if n.news >= n.due {
		if b.looking {
			defer b.restore(b.keep(s.node))
		}
		b.refresh(s.node)
	}
	return min(max(int64(math.Ceil(b.mean(s.node, produced))), produced), most)
}

// knows says whether a node, or one above it, has seen enough.
func (b *Book) knows(i int32) bool {
	for ; i != 0; i = b.nodes[i].parent {
		if b.nodes[i].whole >= b.cfg.Enough {
			return true
		}
	}
	return false
}

// refresh brings the tables of a node and of those above it up to date.
func (b *Book) refresh(i int32) {
	n := &b.nodes[i]
	if n.parent != 0 {
		b.refresh(n.parent)
	}
	// The calls of others weigh little beside many of one's own, and need not be
	// looked up for every call.
	if n.news >= n.due || n.from != b.nodes[n.parent].built && n.whole < ownMind {
		b.build(i)
	}
}
