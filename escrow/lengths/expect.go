package lengths

// ExpectOf is Expect of a call that has not begun.
func (b *Book) ExpectOf(k Kind, most int64) int64 { return b.ReachOf(k, most, 0) }

// ReachOf is Reach of a call that nobody learns from: to ask changes nothing.
func (b *Book) ReachOf(k Kind, most, produced int64) int64 {
	most = max(most, 0)
	i := b.find(keyOf(k, most))
	return b.ask(&Stream{node: i, gen: b.nodes[i].gen, most: most}, max(produced, 0))
}
