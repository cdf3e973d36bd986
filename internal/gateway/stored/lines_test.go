package stored

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/form"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/route"
)

// testChecker is a tenant that may use the model m and sees the object f.
type testChecker struct{ calls []string }

func (*testChecker) CheckModel(model string) *admission.Refusal {
	if model == "m" {
		return nil
	}
	return admission.NotGranted("acme", "", model)
}

func (*testChecker) CheckReference(ref head.Reference) *admission.Refusal {
	if ref.ID == "f" {
		return nil
	}
	return &admission.Refusal{Message: "There is no " + ref.ID + "."}
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
			for i := len(edits) - 1; i >= 0; i-- {
				text = text[:edits[i].Start] + edits[i].Text + text[edits[i].End:]
			}
			if text != want || strings.Join(by.calls, ",") != tc.calls {
				t.Errorf("sent %s of calls %v,\nwant %s of %s", text, by.calls, want, tc.calls)
			}
		})
	}
}
