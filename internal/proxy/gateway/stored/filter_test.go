package stored

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lib/form"
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/test/testkit"
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

// testChecker is a tenant that may use the model m and sees the object f.
type testChecker struct{ calls []string }

func (*testChecker) CheckModel(model string) *ask.Refusal {
	if model == "m" {
		return nil
	}
	return admission.NotGranted("acme", "", model)
}

func (*testChecker) CheckTiers(path string, h *head.Head) *ask.Refusal {
	h.Lower(func(tier string) bool { return tier != "priority" }, func(param string) string { return dialect.UsualTier(path, param) })
	return nil
}

func (*testChecker) CheckReference(ref head.Reference) *ask.Refusal {
	if ref.ID == "f" {
		return nil
	}
	return &ask.Refusal{Message: "There is no " + ref.ID + "."}
}

func (c *testChecker) AddCall(h *head.Head, to *route.Route, _ []head.Reference) {
	path := "any"
	if to != nil {
		path = to.Path
	}
	c.calls = append(c.calls, path+" "+h.Model)
}

// Each line is checked as a call is, and refused by its number; the bounds of its answer are lowered where it
// stands in the file.
func TestFile_Check(t *testing.T) {
	const chat = `{"url":"/v1/chat/completions","body":{"model":"m"`
	for _, tc := range []struct {
		name, file string
		sent       string // "" is as it came
		refused    string
		calls      string
	}{
		{name: "empty lines", file: "\n \n\t\r\n"},
		{name: "a bound above the tenant's", file: "\n  " + chat + `,"max_tokens":900}}` + "\n", sent: "\n  " + chat + `,"max_tokens":50}}` + "\n", calls: "/chat/completions m"},
		{
			name: "none, and one below it", file: chat + "}}\n" + chat + `,"max_tokens":9}}`, calls: "/chat/completions m,/chat/completions m",
			sent: `{"url":"/v1/chat/completions","body":{"max_completion_tokens":50,"model":"m"}}` + "\n" + chat + `,"max_tokens":9}}`,
		},
		{name: "a tier that is lowered", file: chat + `,"service_tier":"priority","max_tokens":90}}`, sent: chat + `,"service_tier":"default","max_tokens":50}}`, calls: "/chat/completions m"},
		{name: "one of embeddings", file: `{"url":"/v1/embeddings","body":{"service_tier":"priority","model":"m"}}`, sent: `{"url":"/v1/embeddings","body":{"model":"m"}}`, calls: "/embeddings m"},
		{name: "no tokens are produced", file: `{"url":"/v1/embeddings","body":{"model":"m"}}`, calls: "/embeddings m"},
		{name: "an object of its own", file: chat + `,"file_id":"f","max_tokens":1}}`, calls: "/chat/completions m"},
		{name: "what only looks like one", file: chat + `,"tools":[{"parameters":{"default":{"file_id":"x","File_id":1}}}],"max_tokens":1}}`, calls: "/chat/completions m"},
		{name: "another's object", file: chat + `,"file_id":"x"}}`, refused: "Line 1: There is no x."},
		{name: "another's model", file: chat + "}}\n" + `{"url":"/v1/completions","body":{"model":"n"}}`, refused: "Line 2: Tenant acme may not use"},
		{name: "a model in its place", file: chat + `,"models":["n"]}}`, refused: "Line 1: Tenant acme may not use"},
		{name: "no url", file: `{"body":{"model":"m"}}`, refused: "Line 1: A call must name its url."},
		{name: "a url that is not inference", file: `{"url":"/v1/files","body":{"model":"m"}}`, refused: "Line 1: A batch cannot call"},
		{name: "a carriage return", file: "{}\r{}", refused: "Line 1: A carriage return"},
		{name: "two of a key", file: `{"body":{},"body":{}}`, refused: "Line 1: The key \"body\" is there twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			by := &testChecker{}
			sent := &form.Form{Parts: []form.Part{
				{Name: "purpose", Content: []byte("batch")},
				{Name: "file", Filename: "a", Type: "a/b", Content: []byte(tc.file)},
			}}
			f := File{By: by, MaxOutput: 50}.Check(sent)
			if tc.refused != "" {
				if f == nil || !strings.HasPrefix(f.Message, tc.refused) || f.Param != "file" {
					t.Errorf("got %+v, want %q", f, tc.refused)
				}
				return
			}
			if f != nil {
				t.Fatal(f.Message)
			}
			want := tc.sent
			if want == "" {
				want = tc.file
			}
			text := tc.file
			edits := sent.Parts[1].Edits
			splice.Sort(edits)
			for i := len(edits) - 1; i >= 0; i-- {
				text = text[:edits[i].Start] + edits[i].Text + text[edits[i].End:]
			}
			if text != want || strings.Join(by.calls, ",") != tc.calls {
				t.Errorf("sent %s of calls %v,\nwant %s of %s", text, by.calls, want, tc.calls)
			}
		})
	}
}
