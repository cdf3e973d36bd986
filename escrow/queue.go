package escrow

// LeafID names a leaf of a pool: one tenant's queue. IDs are small and dense.
type LeafID int32

// leaf is one tenant's place in the fair queue: its tags, and a FIFO of the
// entries that wait.
type leaf struct {
	weight Weight
	// finish is the tag at which the leaf's next call may start: the last one's
	// start plus its cost over the weight. While calls wait it is also the start
	// tag of the head.
	finish int64
	// epoch is the lead epoch in which the leaf last was served.
	epoch uint64
	// ratio is what the leaf's calls take of what they declare, in millionths, as a
	// moving average. Tags are charged by it: charged in full, the refunds of calls
	// in flight would pull a tag far below that of a leaf which returns.
	ratio, ended int64

	head, tail int32 // entries; none when queued is 0
	queued     int
	backlog    int64 // virtual cost of what is queued
	at         int   // position in the heap, -1 when nothing waits
}

// queue is start-time fair queueing over leaves: the waiting leaf with the
// smallest start tag is served next, and each call moves its leaf's tag by
// cost/weight. It is fair whatever the server's rate does, which a rate that
// follows grants, refunds and 429s needs, and it uses no cost before dispatch.
//
// Source: Goyal, Vin, Cheng, "Start-time Fair Queueing: A Scheduling Algorithm
// for Integrated Services Packet Switching Networks", SIGCOMM 1996.
type queue struct {
	leaves []leaf
	heap   []LeafID
	// virtual is the start tag of the last call dispatched: the time of the
	// fluid system. Leaves that return start here, not in the past.
	virtual int64

	waiting  int    // entries queued
	weights  Weight // sum over the leaves that wait
	leading  Weight // sum over the leaves served in this lead epoch
	epoch    uint64
	headCost func(LeafID) int64 // virtual cost of a leaf's head, to break ties
}

// rebaseAt is the tag at which all tags are shifted back, years of saturation
// away at ordinary weights.
const rebaseAt = int64(1) << 61

func (q *queue) add(w Weight) LeafID {
	if w < 1 || w > MaxWeight {
		panic("escrow: BUG: weight out of range")
	}
	q.leaves = append(q.leaves, leaf{weight: w, at: -1, ratio: wholeRatio})
	return LeafID(len(q.leaves) - 1)
}

// start gives leaf i its tag as it turns from idle to waiting or served. lead
// is what the pool has dispatched ahead of a fluid server, beyond its slack, in
// virtual cost: those who were served meanwhile have taken it together, and
// who comes back only now starts that much earlier. The leaf's own finish tag
// keeps the credit from being farmed.
func (q *queue) start(i LeafID, lead int64) {
	l := &q.leaves[i]
	s := q.virtual
	if lead > 0 && l.epoch != q.epoch && q.leading > 0 {
		s -= mulDivCeil(lead, int64(WeightOne), int64(q.leading))
	}
	l.finish = max(s, l.finish)
}

// charge moves leaf i past a call of virtual cost c, which now starts.
func (q *queue) charge(i LeafID, c int64) {
	l := &q.leaves[i]
	q.virtual = max(q.virtual, l.finish)
	l.move(q.virtual, c)
	if l.epoch != q.epoch {
		l.epoch = q.epoch
		q.leading += l.weight
	}
	if q.virtual > rebaseAt {
		q.rebase()
	}
}

// settle corrects leaf i's tag by d, the virtual cost of what a call took
// beyond what it was charged. A refund is not clipped at virtual time: that
// would cost heavy-tailed tenants a part of their share, and it cannot exceed
// what the call was charged.
func (q *queue) settle(i LeafID, d int64) {
	l := &q.leaves[i]
	l.move(q.virtual, d)
	if l.at >= 0 {
		q.fix(l.at)
	}
}

// move shifts the leaf's tag by a virtual cost over its weight.
func (l *leaf) move(virtual, cost int64) {
	l.finish = min(l.finish+signedMulDiv(cost, int64(WeightOne), int64(l.weight)), virtual+maxAhead)
}

// A leaf's ratio is wholeRatio until its calls have told otherwise.
const (
	wholeRatio = 1_000_000
	minRatio   = wholeRatio / 100
	maxRatio   = wholeRatio * 4
	// ratioMemory is how many calls the moving average spans.
	ratioMemory = 32
)

// expected is what a call is charged that declares a virtual cost.
func (l *leaf) expected(declared int64) int64 { return mulDivCeil(declared, l.ratio, wholeRatio) }

// learn takes in what an ended call has taken of what it declared.
func (l *leaf) learn(actual, declared int64) {
	if declared <= 0 {
		return
	}
	sample := min(max(mulDivCeil(actual, wholeRatio, declared), minRatio), maxRatio)
	l.ended = min(l.ended+1, ratioMemory)
	l.ratio += (sample - l.ratio) / l.ended
}

// tail is the tag that one more call of leaf i would start at.
func (q *queue) tail(i LeafID) int64 {
	l := &q.leaves[i]
	if l.queued == 0 {
		return max(l.finish, q.virtual)
	}
	return l.finish + min(mulDivCeil(l.expected(l.backlog), int64(WeightOne), int64(l.weight)), maxAhead)
}

// newEpoch ends a lead epoch: the pool is no longer ahead of the fluid server.
func (q *queue) newEpoch() {
	q.epoch++
	q.leading = 0
}

func (q *queue) rebase() {
	by := q.virtual
	q.virtual = 0
	for i := range q.leaves {
		// A leaf long gone may lie further back than an int64 reaches from here.
		// It returns at virtual time in any case, so the past is cut there.
		q.leaves[i].finish = max(q.leaves[i].finish-by, -rebaseAt)
	}
}

// first is the leaf to be served next.
func (q *queue) first() (LeafID, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0], true
}

func (q *queue) less(a, b LeafID) bool {
	la, lb := &q.leaves[a], &q.leaves[b]
	if la.finish != lb.finish {
		return la.finish < lb.finish
	}
	// Equal starts: the one that would finish first goes first, so that light
	// calls do not wait for heavy ones.
	fa := mulDivCeil(q.headCost(a), int64(WeightOne), int64(la.weight))
	fb := mulDivCeil(q.headCost(b), int64(WeightOne), int64(lb.weight))
	if fa != fb {
		return fa < fb
	}
	return a < b
}

// resort puts leaf i where it belongs after its tag or its head has changed.
func (q *queue) resort(i LeafID) {
	l := &q.leaves[i]
	switch {
	case l.queued == 0 && l.at >= 0:
		q.remove(i)
	case l.queued > 0 && l.at < 0:
		q.push(i)
	case l.queued > 0:
		q.fix(l.at)
	}
}

func (q *queue) push(i LeafID) {
	l := &q.leaves[i]
	l.at = len(q.heap)
	q.heap = append(q.heap, i)
	q.weights += l.weight
	q.up(l.at)
}

func (q *queue) remove(i LeafID) {
	l := &q.leaves[i]
	at, last := l.at, len(q.heap)-1
	q.swap(at, last)
	q.heap = q.heap[:last]
	l.at = -1
	q.weights -= l.weight
	if at < last {
		q.fix(at)
	}
}

func (q *queue) fix(at int) {
	i := q.heap[at]
	q.up(at)
	q.down(q.leaves[i].at)
}

func (q *queue) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !q.less(q.heap[at], q.heap[parent]) {
			return
		}
		q.swap(at, parent)
		at = parent
	}
}

func (q *queue) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && q.less(q.heap[child+1], q.heap[child]) {
			child++
		}
		if !q.less(q.heap[child], q.heap[at]) {
			return
		}
		q.swap(at, child)
		at = child
	}
}

func (q *queue) swap(a, b int) {
	q.heap[a], q.heap[b] = q.heap[b], q.heap[a]
	q.leaves[q.heap[a]].at = a
	q.leaves[q.heap[b]].at = b
}
