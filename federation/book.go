package federation

import (
	"cmp"
	"slices"
)

// book is amounts by slot, in the order of the slots; zeros are left out.
type book []Booked

// find is the index of a slot, or where it would be. The slots of a busy pool have no gaps, and
// most are added at the end.
func (b book) find(slot int64) (int, bool) {
	n := len(b)
	if n == 0 || b[n-1].Slot < slot {
		return n, false
	}
	if i := slot - b[0].Slot; i >= 0 && i < int64(n) && b[i].Slot == slot {
		return int(i), true
	}
	return slices.BinarySearchFunc(b, slot, func(x Booked, slot int64) int { return cmp.Compare(x.Slot, slot) })
}

// at is the amount in a slot.
func (b book) at(slot int64) Amounts {
	if i, ok := b.find(slot); ok {
		return b[i].Used
	}
	return Amounts{}
}

// set puts an amount into a slot, in place of the one before.
func (b *book) set(slot int64, x Amounts) {
	i, there := b.find(slot)
	b.put(i, there, slot, x)
}

// put is set, of a slot that was found.
func (b *book) put(i int, there bool, slot int64, x Amounts) {
	switch {
	case there && x == Amounts{}:
		*b = slices.Delete(*b, i, i+1)
	case there:
		(*b)[i].Used = x
	case x != Amounts{}:
		*b = slices.Insert(*b, i, Booked{slot, x})
	}
}

// add changes the amount in a slot.
func (b *book) add(slot int64, d Amounts) {
	if i, there := b.find(slot); there {
		b.put(i, there, slot, plus((*b)[i].Used, d))
	} else {
		b.put(i, there, slot, d)
	}
}

// since drops everything before a slot.
func (b *book) since(slot int64) {
	i, _ := b.find(slot)
	*b = slices.Delete(*b, 0, i)
}

// sum is the amount in the slots from … to, both included.
func (b book) sum(from, to int64) Amounts {
	var s Amounts
	i, _ := b.find(from)
	for ; i < len(b) && b[i].Slot <= to; i++ {
		s = plus(s, b[i].Used)
	}
	return s
}

func plus(a, b Amounts) Amounts {
	for k := range a {
		a[k] += b[k]
	}
	return a
}

func minus(a, b Amounts) Amounts {
	for k := range a {
		a[k] -= b[k]
	}
	return a
}

// within cuts each amount to low…high.
func within(low int64, x Amounts, high int64) Amounts {
	for k := range x {
		x[k] = min(max(x[k], low), high)
	}
	return x
}
