package spend

import (
	"maps"
	"sync"
	"time"
)

// mostRows is how many rows of a day there are with models and upstreams of their own. Beyond them a tenant has one row more.
const mostRows = 100_000

// Book has the rows of the last days. It is safe for concurrent use.
type Book struct {
	zone *time.Location
	most int

	mu      sync.Mutex
	rows    map[Key]Sum      // guarded by mu, as all below
	first   string           // no earlier day is counted any more
	today   string           // the last day that was counted
	count   int              // rows of today
	unsaved map[Key]struct{} // changed since Changed
	untold  map[Key]struct{} // changed since Told
	alone   bool             // nobody is to be told
	log     func(Row)        // the record of what is added, called under mu; nil is none
}

// NewBook returns an empty book, whose days begin in a time zone.
func NewBook(zone *time.Location) *Book {
	return &Book{zone: zone, most: mostRows, rows: map[Key]Sum{}, unsaved: map[Key]struct{}{}, untold: map[Key]struct{}{}}
}

// LogTo has f called with all that is added from now on. It must not call the book.
func (b *Book) LogTo(f func(Row)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = f
}

// Alone says that rows are kept for no store, as none is told of them.
func (b *Book) Alone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone = true
}

// Add counts what was taken at a time, on its day; the Key's Day is not used. A clock that is put back adds to the first day of which
// the book still has rows.
func (b *Book) Add(now time.Time, k Key, s Sum) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k.Day = max(DayOf(now.In(b.zone)), b.first)
	b.reachLocked(k.Day)
	if _, there := b.rows[k]; !there && b.count >= b.most {
		k.Model = Other
		k.Upstream = Other
	}
	b.addLocked(k, s)
	if b.log != nil {
		b.log(Row{k, s})
	}
}

// reachLocked begins a day, if it is later than those before.
func (b *Book) reachLocked(day string) {
	if day > b.today {
		b.today = day
		b.count = 0
	}
}

func (b *Book) addLocked(k Key, s Sum) {
	if _, there := b.rows[k]; !there && k.Day == b.today {
		b.count++
	}
	b.rows[k] = b.rows[k].Plus(s)
	b.unsaved[k] = struct{}{}
	b.untold[k] = struct{}{}
}

// Begin says that rows of earlier days than one are not loaded, so that nothing can be added to them.
func (b *Book) Begin(day string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first = max(b.first, day)
}

// Restore adds what an earlier process has logged.
func (b *Book) Restore(r Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Day = max(r.Day, b.first)
	b.reachLocked(r.Day)
	b.addLocked(r.Key, r.Sum)
}

// Load takes over a row that an earlier process has saved.
func (b *Book) Load(r Row) {
	b.Restore(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unsaved, r.Key)
}

// Turn calls f while nothing is added, and returns the rows that have changed since the last Turn, unless f fails.
func (b *Book) Turn(f func() error) ([]Row, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := f(); err != nil {
		return nil, err
	}
	rows := b.someLocked(b.unsaved, len(b.unsaved))
	clear(b.unsaved)
	return rows, nil
}

// Len is the number of rows.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rows)
}

// Untold are rows of which the store was not told as they are, at most so many.
func (b *Book) Untold(most int) []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.someLocked(b.untold, most)
}

// Told notes that the store knows rows. Those that have changed meanwhile remain untold.
func (b *Book) Told(rows []Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rows {
		if b.rows[r.Key] == r.Sum {
			delete(b.untold, r.Key)
		}
	}
}

// FirstUntold is the first day with an untold row; today if there is none.
func (b *Book) FirstUntold(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	day := DayOf(now.In(b.zone))
	for k := range b.untold {
		day = min(day, k.Day)
	}
	return day
}

// Forget drops rows of days before a day. Rows that are unsaved are kept, and those of which a store is not told yet unless they are older than
// KeepDays, and so are the days after the first of them.
func (b *Book) Forget(day string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.unsaved {
		day = min(day, k.Day)
	}
	if b.alone {
		clear(b.untold)
	}
	if today, err := time.Parse(time.DateOnly, b.today); err == nil {
		oldest := DayOf(today.AddDate(0, 0, -KeepDays))
		maps.DeleteFunc(b.untold, func(k Key, _ struct{}) bool { return k.Day < oldest })
	}
	for k := range b.untold {
		day = min(day, k.Day)
	}
	b.first = max(b.first, day)
	maps.DeleteFunc(b.rows, func(k Key, _ Sum) bool { return k.Day < b.first })
}

// Rows calls each with the rows of some days, and first is the day from which on there are all. each must not call the book.
func (b *Book) Rows(from, to string, each func(Row)) (first string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, s := range b.rows {
		if k.Day >= from && k.Day <= to {
			each(Row{k, s})
		}
	}
	return b.first
}

func (b *Book) someLocked(keys map[Key]struct{}, most int) []Row {
	rows := make([]Row, 0, min(most, len(keys)))
	for k := range keys {
		if len(rows) == most {
			break
		}
		rows = append(rows, Row{k, b.rows[k]})
	}
	return rows
}
