package stored

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/testkit"
)

// account is an upstream's list with the semantics of OpenAI's cursors.
type account struct {
	ids   []string
	owner map[string]string
	size  int // of a page
}

func (a *account) fetch(backward bool) func(string) (listPage, error) {
	return func(cursor string) (listPage, error) {
		ids := a.ids
		more := false
		at := slices.Index(ids, cursor)
		switch {
		case cursor != "" && at < 0:
			return listPage{}, fmt.Errorf("no such cursor: %s", cursor)
		case backward:
			ids = ids[max(0, at-a.size):at]
			more = at > a.size
		default:
			ids = ids[at+1:]
			ids, more = ids[:min(len(ids), a.size)], len(ids) > a.size
		}
		p := listPage{more: more}
		for _, id := range ids {
			p.items = append(p.items, listItem{id: id})
		}
		return p, nil
	}
}

func (a *account) of(tenant string) []string {
	return slices.DeleteFunc(slices.Clone(a.ids), func(id string) bool { return a.owner[id] != tenant })
}

func newAccount(rt *rapid.T) *account {
	a := &account{owner: map[string]string{}, size: rapid.IntRange(1, 7).Draw(rt, "page")}
	for i, owner := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 60).Draw(rt, "owners") {
		id := fmt.Sprint("id", i)
		a.ids = append(a.ids, id)
		a.owner[id] = owner
	}
	return a
}

// Page after page a tenant sees exactly its own, in order, whoever else made what, and is
// never told that there is more when there is not.
func TestFilterShowsExactlyOnesOwn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAccount(rt)
		limit := rapid.IntRange(1, 9).Draw(rt, "limit")
		f := filter{
			sees:   func(id string) bool { return a.owner[id] == "b" },
			fetch:  a.fetch(false),
			enough: func(int) bool { return false },
		}
		var got []string
		cursor := ""
		for {
			page := testkit.Must(f.run(cursor, limit))(rt)
			if len(page.items) > limit || page.more && len(page.items) < limit {
				rt.Fatalf("a page of %d items, more: %t, with a limit of %d", len(page.items), page.more, limit)
			}
			for _, item := range page.items {
				got = append(got, item.id)
			}
			if !page.more {
				break
			}
			cursor = got[len(got)-1]
		}
		if want := a.of("b"); !slices.Equal(got, want) {
			rt.Fatalf("listed %v, want %v", got, want)
		}
	})
}

func TestFilterReadsBackward(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAccount(rt)
		own := a.of("b")
		if len(own) == 0 {
			return
		}
		limit := rapid.IntRange(1, 9).Draw(rt, "limit")
		at := rapid.IntRange(0, len(own)-1).Draw(rt, "cursor")
		f := filter{
			sees:     func(id string) bool { return a.owner[id] == "b" },
			fetch:    a.fetch(true),
			enough:   func(int) bool { return false },
			backward: true,
		}
		page := testkit.Must(f.run(own[at], limit))(rt)
		var got []string
		for _, item := range page.items {
			got = append(got, item.id)
		}
		if want := own[max(0, at-limit):at]; !slices.Equal(got, want) || page.more != (at > limit) {
			rt.Fatalf("before %s: %v, more %t; want %v, more %t", own[at], got, page.more, want, at > limit)
		}
	})
}

func TestFilterGivesUp(t *testing.T) {
	a := &account{owner: map[string]string{}, size: 10}
	for i := range 1000 {
		a.ids = append(a.ids, fmt.Sprint("id", i))
	}
	a.owner["id5"] = "b"
	a.owner["id900"] = "b"
	f := filter{
		sees:   func(id string) bool { return a.owner[id] == "b" },
		fetch:  a.fetch(false),
		enough: func(pages int) bool { return pages >= 3 },
	}
	page, err := f.run("", 2)
	if err != nil || len(page.items) != 1 || !page.more || !page.short {
		t.Errorf("after three pages: %+v, %v", page, err)
	}
	// An upstream that does not heed cursors: its one page, for ever.
	f.fetch = func(string) (listPage, error) {
		return listPage{items: []listItem{{id: "id5"}, {id: "x"}}, more: true}, nil
	}
	f.enough = func(pages int) bool { return pages > 100 }
	if page, err := f.run("", 50); err != nil || len(page.items) > 2 {
		t.Errorf("an upstream without cursors: %d items, %v", len(page.items), err)
	}
}
