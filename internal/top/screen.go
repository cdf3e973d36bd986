package top

// screen is a list, with what is said above it, and where one is in it.
type screen struct {
	title string
	sheet sheet
	// above is what stands above the list; nil is nothing.
	above func(d *Data, p *pen) []string
	wants wants

	filter   string
	order    int
	selected string // its key; empty before there are rows
	cursor   int    // where that is
	top      int    // the first row that is seen
}

// load takes new data over.
func (s *screen) load(d *Data) {
	s.sheet.load(d)
	s.arrange()
}

// arrange filters and sorts again. The selected row stays selected; if it is gone, the one that
// is in its place now is.
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

// moveTo selects a row, or the nearest that there is.
func (s *screen) moveTo(i int) {
	n, _, _ := s.sheet.len()
	s.cursor = max(min(i, n-1), 0)
	s.selected = ""
	if n > 0 {
		s.selected = s.sheet.key(s.cursor)
	}
}

// reorder takes the next order, and goes to its first row.
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

// scroll sets which rows are seen in so many lines, the selected one among them.
func (s *screen) scroll(lines int) (from, to int) {
	n, _, _ := s.sheet.len()
	lines = max(lines, 0)
	s.top = min(s.top, s.cursor)
	s.top = max(s.top, s.cursor-lines+1, 0)
	s.top = max(min(s.top, n-lines), 0)
	return s.top, min(s.top+lines, n)
}

// newTabs are the screens that tab goes through.
func newTabs(g Glyphs) []*screen {
	return []*screen{
		{title: "Pools", sheet: poolList(g)},
		{title: "Tenants", sheet: tenantList("", g), wants: wants{shares: true}},
		{title: "Leases", sheet: leaseList("", g), wants: wants{leases: true}},
		{title: "Nodes", sheet: nodeList(g), above: aboutStores},
	}
}
