package lengths

import "slices"

// ExpectOf is Expect of a call that has not begun.
func (b *Book) ExpectOf(k Kind, most int64) int64 { return b.ExpectAt(&b.latest, k, most) }

// ExpectAt is ExpectOf for a kind that is looked for at a place first.
func (b *Book) ExpectAt(at *Place, k Kind, most int64) int64 { return b.reach(at, k, most, 0) }

// Knows reports whether enough calls have ended to tell how long one of a kind gets. Else
// the expectation is the most.
func (b *Book) Knows(k Kind, most int64) bool {
	return b.knows(b.find(keyOf(k, max(most, 0)), &b.latest))
}

// Looking says whether those who ask from now on only look. They are answered as others would be, but
// a table that is built for them is not kept, or what others are answered later would hang on
// who has looked before.
func (b *Book) Looking(on bool) { b.looking = on }

// kept is a node and those above it as they were.
type kept struct {
	at    [levels]int32
	nodes [levels]node
}

func (b *Book) keep(i int32) (k kept) {
	for l := 0; i != 0; l++ {
		n := &b.nodes[i]
		k.at[l] = i
		k.nodes[l] = *n
		n.bins = slices.Clone(n.bins)
		i = n.parent
	}
	return k
}

func (b *Book) restore(k kept) {
	for l, i := range k.at {
		if i != 0 {
			b.nodes[i] = k.nodes[l]
		}
	}
}

// ReachOf is Reach of a call that nobody learns from: to ask changes nothing.
func (b *Book) ReachOf(k Kind, most, produced int64) int64 {
	return b.reach(&b.latest, k, most, produced)
}

func (b *Book) reach(at *Place, k Kind, most, produced int64) int64 {
	most = max(most, 0)
	i := b.find(keyOf(k, most), at)
	return b.ask(&Stream{node: i, gen: b.nodes[i].gen, most: most}, max(produced, 0))
}
