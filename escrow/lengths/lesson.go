package lengths

import (
	"cmp"
	"math"
	"slices"
)

// Lesson is a Book's knowledge of one kind at one level, as a value that can be written down.
type Lesson struct {
	Kind  Kind
	Level uint8 // 0 is a tenant's, 1 its tier's, 2 its model's
	Most  int64 // greatest of its calls
	Whole int64 // completions ever seen
	// Bins are faded counts, from the shortest lengths on. The first number of a bin is calls that came to it less those that came to the
	// next one, the second calls that ended in it, and the third the sum of the lengths of these.
	Bins [][3]float64
}

// mostLessons is the longest list of Lessons: the governor's lock is held while they are copied.
const mostLessons = 64

// Lessons are the Book's knowledge of kinds that have Enough completions: at most 64, first the levels on which others build, and
// then the kinds with the most completions. Calls that run count as cut off. O(kinds).
func (b *Book) Lessons() (list []Lesson) {
	for _, i := range b.index {
		n := &b.nodes[i]
		if n.whole < b.cfg.Enough {
			continue
		}
		l := Lesson{Kind: n.key.kind, Level: n.key.level, Most: n.most, Whole: n.whole}
		if at, _ := slices.BinarySearchFunc(list, l, inOrder); at < mostLessons { // few of many are: a sort would take longer
			list = slices.Insert(list[:min(len(list), mostLessons-1)], at, l)
		}
	}
	for i := range list {
		list[i].Bins = b.nodes[b.index[list[i].key()]].counts()
	}
	return list
}

func inOrder(x, y Lesson) int {
	return cmp.Or(cmp.Compare(y.Level, x.Level), cmp.Compare(y.Whole, x.Whole), cmp.Compare(x.Kind.Model, y.Kind.Model),
		cmp.Compare(x.Kind.Tier, y.Kind.Tier), cmp.Compare(x.Kind.Tenant, y.Kind.Tenant), cmp.Compare(x.Most, y.Most))
}

func (l *Lesson) key() key {
	k := keyOf(l.Kind, l.Most)
	k.level = l.Level
	return k
}

// counts are the bins without the calls that are in them still, half of which could have ended there (cut).
func (n *node) counts() [][3]float64 {
	bins := make([][3]float64, n.top+1)
	for at := range bins {
		b := &n.bins[at]
		bins[at] = [3]float64{b.last - b.here/2, b.ended, b.sum}
		if at > 0 {
			bins[at-1][0] += b.here / 2
		}
	}
	return bins
}

// Recall takes in the Lessons of an earlier Book for kinds that this one has not met. A Lesson that no Book can have learned is left out.
func (b *Book) Recall(list []Lesson) {
	for i := range list {
		l := &list[i]
		if !l.sound() {
			continue
		}
		k := l.key()
		at := b.learn(k)
		if n := &b.nodes[at]; at != 0 && n.key == k && n.entries == 0 {
			b.recall(at, l)
		}
	}
}

func (b *Book) recall(i int32, l *Lesson) {
	n := &b.nodes[i]
	idle := n.list != nil
	if idle {
		b.take(i)
	}
	n.most = l.Most
	n.whole = l.Whole
	n.reach(len(l.Bins) - 1)
	n.top = len(l.Bins) - 1
	for at, counts := range l.Bins {
		b := &n.bins[at]
		b.last = counts[0]
		b.ended = counts[1]
		b.sum = counts[2]
		n.mass += counts[1]
		n.entries += counts[0] * float64(at+1)
	}
	n.news = n.due
	if n.whole >= b.cfg.Enough {
		b.learned++
	}
	if idle {
		b.idle(i)
	}
}

// sound reports whether a Book can have learned it.
func (l *Lesson) sound() bool {
	const most = 1 << 53
	if l.Level >= levels || l.Most < 0 || l.Whole < 1 || len(l.Bins) == 0 || len(l.Bins) > binOf(l.Most)+1 {
		return false
	}
	for _, counts := range l.Bins {
		for _, c := range counts {
			if math.IsNaN(c) || math.Abs(c) > most {
				return false
			}
		}
		if counts[1] < 0 || counts[2] < 0 {
			return false
		}
	}
	return true
}
