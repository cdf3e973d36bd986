package lengths

import "math"

// node is the knowledge about one kind at one level: a tenant's calls, or those of
// its tier, or all of a model.
type node struct {
	key    key
	gen    uint32 // counts the uses of this place; see Stream
	parent int32  // 0 at the last level

	pins       int32 // running calls and children; a pinned node is not evicted
	list       *list // of those that nothing pins, where this one is; nil if pinned
	prev, next int32

	most    int64 // greatest of its calls
	running int64
	whole   int64 // completions ever seen

	bins    []bin   // those that calls have entered, and those in the table
	top     int     // the last bin that a call has entered
	era     uint32  // how often all that is in bins was halved
	ends    int64   // since the last halving by age
	mass    float64 // completions, faded as bins are
	entries float64 // entries into bins, faded as bins are

	// The table are the steps of bins, worked out from their counts; see table.go.
	edge  int     // its last bin
	above bool    // those behind it are the parent's
	risks float64 // the sum of its hazards
	news  int64   // entries since it was built
	due   int64   // how much news makes it stale
	built uint32  // how often it was built
	from  uint32  // what built of the parent was, then

	expected float64 // ends that the table foretold, since the last doubt
	observed int64   // completions since
}

// bin counts calls by how far they came, and how many ended there. With its step it is one line of a processor's cache.
type bin struct {
	last  float64 // entered, less those that entered the next one: as many as entered this bin are the sum of it and all later ones
	ended float64 // and completed here
	sum   float64 // of the lengths of those
	here  float64 // and are here still
	step
}

// weight is the present weight of a count of 1 in an earlier era.
func weight(then, now uint32) float64 {
	if then == now {
		return 1
	}
	return math.Ldexp(1, -int(now-then))
}

// begin counts a call that starts.
func (n *node) begin() {
	n.running++
	n.bins[0].last++
	n.bins[0].here++
	n.entries++
	n.news++
}

// advance counts a call that came from one bin to a later one. It weighs w in
// the former, and is new in all the others. risk is how often it could have ended on its way.
func (n *node) advance(from, to int, w, risk float64) {
	n.reach(to)
	n.bins[from].here -= w
	n.bins[from].last--
	n.bins[to].last++
	n.bins[to].here++
	n.top = max(n.top, to)
	n.entries += float64(to - from)
	n.news += int64(to - from)
	n.expected += risk
}

// reach makes room for the bins up to one.
func (n *node) reach(to int) {
	if more := to + 1 - len(n.bins); more > 0 {
		n.bins = append(n.bins, make([]bin, more)...)
	}
}

// complete counts a call that ended by itself in bin at, where it weighs w.
func (n *node) complete(at int, w, hazard float64, length int64) {
	b := &n.bins[at]
	b.here -= w
	b.ended += w
	n.running--
	b.sum += w * float64(length)
	n.expected += hazard
	n.observed++
	n.whole++
	n.mass++
	n.news++
}

// cut counts a call that was cut off in bin at. It could have ended here for as
// long as it was here: half of the bin, as life tables have it.
func (n *node) cut(at int, w, hazard float64) {
	b := &n.bins[at]
	b.here -= w
	b.last -= w / 2
	if at > 0 {
		n.bins[at-1].last += w / 2
	}
	n.running--
	n.expected += hazard / 2
	n.news++
}

// fade halves all that is known, so many times. Each call that runs knows the
// era of its last entry, so that it takes out again as much as it brought.
func (n *node) fade(times int) {
	f := math.Ldexp(1, -times)
	for i := range n.bins {
		b := &n.bins[i]
		b.last *= f
		b.ended *= f
		b.sum *= f
		b.here *= f
	}
	n.mass *= f
	n.entries *= f
	n.era += uint32(times)
}

const (
	// doubtEvery is how many completions, at least, are compared at once with
	// what was foretold of them. Fewer say little of a change by a factor of 3.
	doubtEvery = 32
	// doubt is how many standard deviations they may be off. With 3, lengths
	// that do not change were doubted once in 300,000 completions.
	doubt = 3
	// doubtFades is how often all is halved then. An eighth is left: a great
	// change is surprising again until little of the old is left, and an accident
	// costs a factor of 3 in accuracy, for a while.
	doubtFades = 3
)

// surprised says whether the last completions contradict the table. It is the
// log-rank test (Mantel 1966): so many calls should have ended as had hazards to
// end in the bins that they went through. Calls that run on count, in what was
// expected, so a change to longer calls shows before the first of them ends.
func (n *node) surprised() bool {
	got := float64(n.observed)
	off := got - n.expected
	// The table is itself an estimate, from a sample of n.mass.
	variance := max(got, n.expected) * (1 + got/max(n.mass-got, 1))
	return off*off > doubt*doubt*variance
}
