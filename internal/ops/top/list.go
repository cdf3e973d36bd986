package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is a column of a list, at least width cells wide. A column of names grows with the longest
// name, a bar with the free space.
type column[R any] struct {
	title string
	width int
	right bool
	// rank orders the columns that are left out if not all fit: those of the highest rank first.
	rank int
	text func(*R) string
	name bool                                   // grows with its texts
	bar  func(r *R, width int, g Glyphs) string // instead of text
	tone func(*R) tone                          // nil is plain
	hide func(l *list[R]) bool                  // nil is never
}

// order is one of the orders of a list. A nil compare keeps the order of the data.
type order[R any] struct {
	name    string
	compare func(a, b *R) int
}

// asConfigured is the order of the data.
const asConfigured = "as configured"

// list is a table of rows of one kind.
type list[R any] struct {
	plural  string // the name of the rows, for an empty list
	columns []column[R]
	orders  []order[R]
	id      func(*R) string // identifies a row
	find    func(*R) string // the text that the filter searches
	rows    func(d *Data) []R
	open    func(*R) *screen // its details, or nil

	glyphs Glyphs
	all    []R
	seen   []int // of all, filtered and sorted
	longs  []int // by growing column, the longest text
	total  int   // the number of all rows, of which some may be missing in the data
	count  func(d *Data) int
}

// sheet is a list of rows of any kind.
type sheet interface {
	load(d *Data)
	arrange(filter string, order int)
	len() (seen, known, total int)
	key(i int) string
	orderNames() []string
	layout(width int) sheetLayout
	closer(i int) *screen
	kind() string
}

// sheetLayout draws rows at one width.
type sheetLayout interface {
	head() string
	line(i int, selected bool, st *styles) string
}

func (l *list[R]) kind() string { return l.plural }

func (l *list[R]) load(d *Data) {
	l.all = l.rows(d)
	l.total = len(l.all)
	if l.count != nil {
		l.total = max(l.total, l.count(d))
	}
	l.longs = make([]int, len(l.columns))
	for c := range l.columns {
		col := &l.columns[c]
		if !col.name {
			continue
		}
		for i := range l.all {
			l.longs[c] = max(l.longs[c], ansi.StringWidth(col.text(&l.all[i])))
		}
	}
}

func (l *list[R]) arrange(filter string, order int) {
	l.seen = l.seen[:0]
	filter = strings.ToLower(filter)
	for i := range l.all {
		if filter == "" || strings.Contains(strings.ToLower(l.find(&l.all[i])), filter) {
			l.seen = append(l.seen, i)
		}
	}
	if compare := l.orders[order].compare; compare != nil {
		slices.SortStableFunc(l.seen, func(a, b int) int { return compare(&l.all[a], &l.all[b]) })
	}
}

func (l *list[R]) len() (seen, known, total int) { return len(l.seen), len(l.all), l.total }

func (l *list[R]) key(i int) string { return l.id(&l.all[l.seen[i]]) }

func (l *list[R]) closer(i int) *screen {
	if l.open == nil {
		return nil
	}
	return l.open(&l.all[l.seen[i]])
}

func (l *list[R]) orderNames() []string {
	var names []string
	for _, o := range l.orders {
		names = append(names, o.name)
	}
	return names
}

// listLayout has the width of each column at a width of the terminal; 0 leaves it out.
type listLayout[R any] struct {
	*list[R]
	widths []int
	gap    string
}

// gutter is the space for the mark of the selected row.
const gutter = 2

// layout leaves columns out until the rest fits, and gives the free space to those that grow: to
// names as they need it, and to bars up to maxBar.
func (l *list[R]) layout(width int) sheetLayout {
	out := listLayout[R]{list: l, widths: make([]int, len(l.columns)), gap: " "}
	if width >= 100 {
		out.gap = "  "
	}
	need := gutter - len(out.gap)
	for c := range l.columns {
		if hide := l.columns[c].hide; hide == nil || !hide(l) {
			out.widths[c] = l.columns[c].width
			need += out.widths[c] + len(out.gap)
		}
	}
	for need > width {
		worst := -1
		for c, w := range out.widths {
			if w > 0 && l.columns[c].rank > 0 && (worst < 0 || l.columns[c].rank > l.columns[worst].rank) {
				worst = c
			}
		}
		if worst < 0 {
			break // lines are cut
		}
		need -= out.widths[worst] + len(out.gap)
		out.widths[worst] = 0
	}
	out.grow(width - need)
	return out
}

const (
	maxName = 40
	maxBar  = 48
)

func (o listLayout[R]) grow(room int) {
	give := func(c, most int) {
		more := min(room, most-o.widths[c])
		if o.widths[c] > 0 && more > 0 {
			o.widths[c] += more
			room -= more
		}
	}
	for c := range o.columns {
		if o.columns[c].name {
			give(c, min(o.longs[c], maxName))
		}
	}
	for c := range o.columns {
		if o.columns[c].bar != nil {
			give(c, maxBar)
		}
	}
}

func (o listLayout[R]) head() string {
	var parts []string
	for c, w := range o.widths {
		if w > 0 {
			parts = append(parts, fit(o.columns[c].title, w, o.columns[c].right, ""))
		}
	}
	return strings.Repeat(" ", gutter) + strings.Join(parts, o.gap)
}

func (o listLayout[R]) line(i int, selected bool, st *styles) string {
	r := &o.all[o.seen[i]]
	var parts []string
	for c, w := range o.widths {
		if w == 0 {
			continue
		}
		col := &o.columns[c]
		text := ""
		if col.bar != nil {
			text = col.bar(r, w, o.glyphs)
		} else {
			text = fit(clean(col.text(r)), w, col.right, o.glyphs.cut)
		}
		if col.tone != nil && !selected {
			text = st.paint(col.tone(r), text)
		}
		parts = append(parts, text)
	}
	mark := "  "
	if selected {
		mark = "> "
	}
	return mark + strings.Join(parts, o.gap)
}
