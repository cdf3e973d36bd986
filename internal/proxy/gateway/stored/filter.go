package stored

import "slices"

// A list of an account's objects contains those of all tenants. The part that a tenant may see
// is found by reading on, page after page.

// listItem is one object of a list, as the upstream wrote it.
type listItem struct{ id, raw string }

// listPage is a page of the upstream's list, in its order.
type listPage struct {
	items []listItem
	more  bool
}

// filter reads a list and keeps the items that the tenant may see.
type filter struct {
	sees func(id string) bool
	// fetch reads the page after a cursor or, backward, the one before it; "" is the beginning.
	fetch func(cursor string) (listPage, error)
	// enough reports whether to stop after so many pages, however few items were found.
	enough func(pages int) bool
	// backward reads towards the beginning. The result is in the list's order all the same.
	backward bool
}

// listed is the result of a filter.
type listed struct {
	items []listItem
	more  bool // the tenant may see more, or it is unknown
	short bool // reading was given up before the end of the list
}

// run finds the first limit items after the cursor that the tenant may see; backward, the last ones
// before it. It looks for one more, to tell whether there are any.
func (f *filter) run(cursor string, limit int) (listed, error) {
	var found []listItem
	for pages := 1; ; pages++ {
		p, err := f.fetch(cursor)
		if err != nil {
			return listed{}, err
		}
		for i := range p.items {
			item := p.items[f.at(i, len(p.items))]
			if !f.sees(item.id) {
				continue
			}
			if len(found) == limit {
				return f.result(found, true, false), nil
			}
			found = append(found, item)
		}
		if !p.more || len(p.items) == 0 {
			return f.result(found, false, false), nil
		}
		next := p.items[f.at(len(p.items)-1, len(p.items))].id
		if next == cursor || next == "" { // an upstream that ignores cursors would go on for ever
			return f.result(found, false, false), nil
		}
		cursor = next
		if f.enough(pages) {
			return f.result(found, true, true), nil
		}
	}
}

// at is the index of the i-th item in the direction of reading.
func (f *filter) at(i, n int) int {
	if f.backward {
		return n - 1 - i
	}
	return i
}

func (f *filter) result(found []listItem, more, short bool) listed {
	if f.backward {
		slices.Reverse(found)
	}
	return listed{found, more, short}
}
