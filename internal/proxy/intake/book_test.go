package intake

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const mib = 1 << 20

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Steps are asked one after the other: +a8 asks for 8 MiB for tenant a, ^a1+4 lets the first body of a
// grow by 4, -a1 gives the first body of a back; A is a team of a. After each comes what has happened.
func TestBook(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps string
	}{
		{"a tenant's bound", "+a20 ok; +a20 waits tenant; +b20 ok; -a1 serves a2"},
		{"a tenant's bound holds for its teams together", "+a20 ok; +A20 waits tenant; +b20 ok; +A4 waits tenant; -a1 serves A1 A2"},
		{"a tenant with teams comes after one that has less", "+a10 ok; +A10 ok; +b30 ok; +c30 ok; +e10 ok; +A12 waits process; +d30 waits process; -b1 serves d1"},
		{"the process's bound", "+a30 ok; +b30 ok; +c30 ok; +d30 waits process; -a1 serves d1"},
		{"least first", "+a10 ok; +a10 ok; +b30 ok; +c30 ok; +e10 ok; +a12 waits process; +d30 waits process; -b1 serves d1; -c1 serves a3"},
		{"nobody overtakes a large one", "+a30 ok; +b30 ok; +c30 ok; +d30 waits process; +e10 waits process; -a1 serves d1; -b1 serves e1"},
		{"who waits for its own tenant stops nobody", "+a30 ok; +a30 waits tenant; +b30 ok; +c30 ok; -b1; -c1; -a1 serves a2"},
		{"first come first in a tenant", "+a30 ok; +a30 waits tenant; +a4 waits tenant; -a1 serves a2; -a2 serves a3"},
		{"growing", "+a8 ok; ^a1+8 ok; ^a1+16 ok; ^a1+1 never"},
		{"growing bodies do not wait for each other", "+a8 ok; +a8 ok; +a16 ok; ^a1+8 waits tenant; ^a2+8 never; -a2 serves a1"},
		{"a growing body is ahead", "+a8 ok; +b30 ok; +c30 ok; +d28 ok; ^a1+8 waits process; +e4 waits process; -b1 serves a1 e1"},
		{"a growing body of a full tenant stops nobody", "+a8 ok; +a24 ok; ^a1+8 waits tenant; +b32 ok; +c30 ok"},
		{"a growing body lets a smaller one of another tenant pass", "+b8 ok; +c16 ok; +d30 ok; +e30 ok; +b14 waits process; +c1 waits process; ^b1+10 ok serves c2"},
		{"what is too large for the tenant never waits", "+a40 never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &table{book: newBook(Bounds{Process: 128 * mib, Tenant: 32 * mib}), entries: map[string]*entry{}, count: map[string]int{}}
			for step := range strings.SplitSeq(c.steps, "; ") {
				do, want, _ := strings.Cut(step, " ")
				if got := w.do(t, do); got != want {
					t.Fatalf("%s: %q, want %q", do, got, want)
				}
				w.check(t)
			}
		})
	}
}

// table is a book whose entries have names: a1 is the first of a.
type table struct {
	*book
	entries map[string]*entry
	names   []string // of entries, in the order in which they came
	count   map[string]int
	readers int
}

func (w *table) do(t *testing.T, step string) string {
	t.Helper()
	var more int64
	switch step[0] {
	case '+':
		_, _ = fmt.Sscan(step[2:], &more)
		return w.ask(step[1:2], more*mib)
	case '^':
		name, by, _ := strings.Cut(step[1:], "+")
		_, _ = fmt.Sscan(by, &more)
		return w.more(w.entries[name], more*mib)
	default:
		return w.give(step[1:])
	}
}

func (w *table) ask(tenant string, bytes int64) string {
	owner := strings.ToLower(tenant)
	if owner != tenant {
		owner += "/team"
	}
	e := w.open(owner, w.readers)
	w.count[tenant]++
	name := fmt.Sprint(tenant, w.count[tenant])
	w.entries[name] = e
	w.names = append(w.names, name)
	return w.more(e, bytes)
}

func (w *table) more(e *entry, bytes int64) string {
	why := w.book.ask(e, bytes, noon)
	switch {
	case why == fits:
		return strings.TrimSpace("ok " + w.serve())
	case !w.canWait(e, bytes):
		if e.has == 0 {
			w.forget(e)
			w.close(e, noon)
		}
		return "never"
	}
	w.wait(e, bytes)
	return "waits " + map[cause]string{tenantFull: "tenant", processFull: "process", readersFull: "readers"}[why]
}

func (w *table) give(name string) string {
	e := w.entries[name]
	w.forget(e)
	if e.wants > 0 {
		w.leave(e)
	}
	w.close(e, noon)
	return w.serve()
}

// serve grants what fits now.
func (w *table) serve() string {
	var out []string
	for _, s := range w.book.serve(noon) {
		out = append(out, w.name(s))
	}
	if len(out) == 0 {
		return ""
	}
	return "serves " + strings.Join(out, " ")
}

func (w *table) name(e *entry) string {
	for name, o := range w.entries {
		if o == e {
			return name
		}
	}
	return "?"
}

func (w *table) forget(e *entry) {
	name := w.name(e)
	delete(w.entries, name)
	for i, n := range w.names {
		if n == name {
			w.names = append(w.names[:i], w.names[i+1:]...)
			return
		}
	}
}

// check compares the book's sums with its entries, and with the bounds.
func (w *table) check(t interface {
	Helper()
	Fatalf(string, ...any)
},
) {
	t.Helper()
	var used int64
	of := map[string]int64{}
	readers := map[string]int{}
	for _, e := range w.entries {
		used += e.has
		of[e.of.total.name] += e.has
		if e.reading {
			readers[e.of.name]++
		}
	}
	if used != w.used || used > w.bounds.large() {
		t.Fatalf("%d bytes are booked, %d are held, %d are allowed", w.used, used, w.bounds.large())
	}
	for name, a := range w.tenants {
		if used := a.total.used; of[a.total.name] != used || used > w.bounds.Tenant || readers[name] != a.readers || w.readers > 0 && a.readers > w.readers {
			t.Fatalf("%s: %d bytes and %d readers are booked, %d and %d are held", name, used, a.readers, of[a.total.name], readers[name])
		}
	}
	if next := w.next(nil); next != nil {
		t.Fatalf("%s waits though it fits", w.name(next))
	}
}

// Whatever is asked, no bound is broken, nobody waits that could be served, and once all bodies that
// do not wait have been given back, nobody waits any more: nobody waits for somebody who waits.
func TestBookProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &table{book: newBook(Bounds{Process: 128, Tenant: 32}), entries: map[string]*entry{}, count: map[string]int{}}
		w.readers = rapid.IntRange(0, 3).Draw(t, "readers")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.random(t)
			w.check(t)
		}
		for len(w.entries) > 0 {
			name := ""
			for _, n := range w.names {
				if w.entries[n].wants == 0 {
					name = n
				}
			}
			if name == "" {
				t.Fatalf("%d bodies wait for each other", len(w.entries))
			}
			w.give(name)
			w.check(t)
		}
		if w.used != 0 || len(w.tenants)+len(w.totals) != 0 || len(w.waiting) != 0 || w.growing != nil {
			t.Fatalf("the empty book says %+v", w.book)
		}
	})
}

func (w *table) random(t *rapid.T) {
	var idle []string
	for _, n := range w.names {
		if w.entries[n].wants == 0 {
			idle = append(idle, n)
		}
	}
	what := rapid.IntRange(0, 4).Draw(t, "what")
	switch {
	case what < 2 || len(w.names) == 0:
		w.ask(rapid.SampledFrom([]string{"a", "A", "b", "c", "d", "e"}).Draw(t, "tenant"), rapid.Int64Range(1, 40).Draw(t, "bytes"))
	case what == 2 && len(idle) > 0:
		w.more(w.entries[rapid.SampledFrom(idle).Draw(t, "who")], rapid.Int64Range(1, 16).Draw(t, "more"))
	case what == 3 && len(idle) > 0:
		w.arrived(w.entries[rapid.SampledFrom(idle).Draw(t, "who")])
		w.serve()
	default:
		w.give(rapid.SampledFrom(w.names).Draw(t, "who"))
	}
}

// A caller is told to come back when memory has come back, by how long it was held lately.
func TestBook_RetryAfter(t *testing.T) {
	b := newBook(Bounds{Process: 128 * mib, Tenant: 32 * mib})
	e := b.open("a", 0)
	for _, c := range []struct {
		held time.Duration
		more int64
		why  cause
		want time.Duration
	}{
		{0, 8 * mib, tenantFull, time.Second},
		{2500 * time.Millisecond, 8 * mib, tenantFull, 3 * time.Second},
		{4 * time.Second, 40 * mib, tenantFull, 8 * time.Second},
		{4 * time.Second, 40 * mib, processFull, 4 * time.Second},
		{time.Hour, 40 * mib, processFull, time.Minute},
	} {
		b.held = c.held
		if got := b.retryAfter(e, c.more, c.why); got != c.want {
			t.Errorf("held %s, asked for %d MiB: %s, want %s", c.held, c.more/mib, got, c.want)
		}
	}
}
