package lengths

// ExpectOf is Expect of a call that has not begun.
func (b *Book) ExpectOf(k Kind, most int64) int64 {
	most = max(most, 0)
	i := b.find(keyOf(k, most))
	return b.ask(&Stream{node: i, gen: b.nodes[i].gen, most: most}, 0)
}
