package escrow

// entryList is a list of entries, linked by index; -1 and -1 when it is empty.
type entryList struct{ head, tail int32 }

// link puts entry n into a list, behind entry after, or at its head when that is -1.
func (t *tree) link(f *entryList, n, after int32) {
	e := &t.entries[n]
	e.prev = after
	if after >= 0 {
		e.next = t.entries[after].next
		t.entries[after].next = n
	} else {
		e.next = f.head
		f.head = n
	}
	if e.next >= 0 {
		t.entries[e.next].prev = n
	} else {
		f.tail = n
	}
}

func (t *tree) unlink(f *entryList, n int32) {
	e := &t.entries[n]
	if e.prev >= 0 {
		t.entries[e.prev].next = e.next
	} else {
		f.head = e.next
	}
	if e.next >= 0 {
		t.entries[e.next].prev = e.prev
	} else {
		f.tail = e.prev
	}
	e.next = -1
	e.prev = -1
}
