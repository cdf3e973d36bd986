package top

// screen is a list, with the lines above it, and the position in it.
type screen struct {
	title string
	sheet sheet
	// above are the lines above the list; may be nil.
	above func(d *Data, p *pen) []string
	wants wants

	filter   string
	order    int
	selected string // its key; empty before there are rows
	cursor   int    // its index
	top      int    // the first visible row
}

// load shows new data.
func (s *screen) load(d *Data) {
	s.sheet.load(d)
	s.arrange()
}

// arrange filters and sorts again. The selected row stays selected; if it is gone, the row in its
// place is.
func (s *screen) arrange() {
	s.sheet.arrange(s.filter, s.order)
	n, _, _ := s.sheet.len()
	for i := range n {
		if s.selected != "" && s.sheet.key(i) == s.selected {
			s.cursor = i
			return
		}
	}
	s.moveTo(s.cursor)
}

// moveTo selects a row, or the nearest one.
func (s *screen) moveTo(i int) {
	n, _, _ := s.sheet.len()
	s.cursor = max(min(i, n-1), 0)
	s.selected = ""
	if n > 0 {
		s.selected = s.sheet.key(s.cursor)
	}
}

// reorder switches to the next order, and selects its first row.
func (s *screen) reorder() {
	s.order = (s.order + 1) % len(s.sheet.orderNames())
	s.refilter(s.filter)
}

func (s *screen) refilter(filter string) {
	s.filter = filter
	s.selected = ""
	s.cursor = 0
	s.top = 0
	s.arrange()
}

// scroll returns the rows that are visible in so many lines, the selected one among them.
func (s *screen) scroll(lines int) (from, to int) {
	n, _, _ := s.sheet.len()
	lines = max(lines, 0)
	s.top = min(s.top, s.cursor)
	s.top = max(s.top, s.cursor-lines+1, 0)
	s.top = max(min(s.top, n-lines), 0)
	return s.top, min(s.top+lines, n)
}
