package budget

import "fmt"

// Check tests all that a state of the books can show. Tests and fuzzers call it
// after every step; it costs O(everything).
func (s *Split) Check() error {
	var total, left, sum, quiet, asked int64
	away := s.rest
	count := 0
	for i := range s.members {
		m := &s.members[i]
		sum += m.weight
		if m.last == s.round {
			away += m.away
		}
		switch {
		case m.used < 0 || m.idle < 0 || m.away < 0 && m.last == s.round:
			return fmt.Errorf("budget: %q used %d and let %d µs pass", m.name, m.used, m.idle)
		case m.last == s.round && m.gone:
			left += m.used
		case m.last == s.round:
			asked += m.weight
			total += m.used
			count++
		case m.last == s.round-1:
			quiet += m.weight
		}
	}
	switch {
	case left > s.left || total+s.left != s.total:
		return fmt.Errorf("budget: members used %d and those gone %d; the books say %d in all, %d by those gone", total, left, s.total, s.left)
	case away != s.away || s.rest < 0 || s.rest > s.left:
		return fmt.Errorf("budget: %d was used elsewhere, %d of it by those gone; the books say %d", away, s.rest, s.away)
	case sum != s.sum || sum > MaxWeights:
		return fmt.Errorf("budget: weights sum to %d, the books say %d", sum, s.sum)
	case quiet != s.quiet:
		return fmt.Errorf("budget: weight %d is quiet, the books say %d", quiet, s.quiet)
	}
	seen := 0
	last := int32(none)
	weight, _, err := s.asked.check(s.asked.root, &seen, &last)
	if err == nil && (seen != count || weight != asked) {
		err = fmt.Errorf("budget: %d members asked, weight %d; the tree has %d, weight %d", count, asked, seen, weight)
	}
	return err
}

// check walks a subtree in order and compares its sums with its members'.
func (t *tree) check(i int32, seen *int, last *int32) (weight int64, left wide, err error) {
	if i == none {
		return 0, wide{}, nil
	}
	n := &t.nodes[i]
	weight, left, err = t.check(n.left, seen, last)
	if err != nil {
		return 0, left, err
	}
	if *last != none && !t.less(*last, i) {
		return 0, left, fmt.Errorf("budget: %d stands behind %d in the tree", i, *last)
	}
	if n.pos < 0 || n.pos > t.span {
		return 0, left, fmt.Errorf("budget: %d is at position %d of %d", i, n.pos, t.span)
	}
	for _, child := range [...]int32{n.left, n.right} {
		if child != none && rank(child) > rank(i) {
			return 0, left, fmt.Errorf("budget: %d is above %d in the tree", i, child)
		}
	}
	*seen++
	*last = i
	w, l, err := t.check(n.right, seen, last)
	weight += w + n.weight
	left = left.plus(l).plus(mul(n.weight, t.span-n.pos))
	if err == nil && (weight != n.sumWeight || left != n.sumLeft) {
		err = fmt.Errorf("budget: %d sums %d and %v, its subtree has %d and %v", i, n.sumWeight, n.sumLeft, weight, left)
	}
	return weight, left, err
}
