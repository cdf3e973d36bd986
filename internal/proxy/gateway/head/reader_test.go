package head

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// checkRead compares Read with the second reader: the verdict and its words, and all that was read.
func checkRead(t testing.TB, body []byte) {
	t.Helper()
	got, problem := Read(body)
	want, wantProblem := reread(body)
	if diff := cmp.Diff(wantProblem, problem); diff != "" {
		t.Fatalf("%.2000q\n(-want +got):\n%s", body, diff)
	}
	if checked := WellFormed(body); (checked == nil) != (rereadWellFormed(body) == nil) {
		t.Fatalf("%.2000q: %v", body, checked)
	}
	if problem != nil {
		return
	}
	found, unreferable := got.References()
	wantFound, wantUnreferable := rereadReferences(body)
	if diff := cmp.Diff(wantUnreferable, unreferable); diff != "" {
		t.Fatalf("%.2000q: references (-want +got):\n%s", body, diff)
	}
	if unreferable == nil && !slices.Equal(found, wantFound) {
		t.Fatalf("%.2000q: refers to %v, want %v", body, found, wantFound)
	}
	checkWalk(t, body, got)
	if len(body) > 16<<10 { // so long a text is weighed by samples
		want.Prompt.Size = got.Prompt.Size
	}
	ignored := cmpopts.IgnoreFields(Head{}, "scanned", "references", "unreferable", "deeper", "Conversation")
	places := cmpopts.IgnoreFields(ServiceTier{}, "members", "out", "first")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Head{}, field{}, streamOptions{}, ServiceTier{}), ignored, places); diff != "" {
		t.Fatalf("%.2000q\n(-want +got):\n%s", body, diff)
	}
}

// checkWalk compares the members that Walk shows.
func checkWalk(t testing.TB, body []byte, h *Head) {
	t.Helper()
	var got, want []string
	deeper := false
	_, problem := Walk(body, func(key, text string, depth int) {
		if key == "" {
			key = "\x00" // as which the second reader notes that an empty key was read
		}
		got = append(got, fmt.Sprintf("%d %q: %q", depth, key, text))
		deeper = deeper || depth > 1 && strings.EqualFold(key, "model") && text != "{"
	})
	_, wantProblem := rereadWalk(body, func(key, text string, depth int) {
		want = append(want, fmt.Sprintf("%d %q: %q", depth, key, text))
	})
	if diff := cmp.Diff(wantProblem, problem); diff != "" {
		t.Fatalf("%.2000q: Walk (-want +got):\n%s", body, diff)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%.2000q: Walk shows\n%q, want\n%q", body, got, want)
	}
	if problem == nil && deeper && !h.NamesDeeper() {
		t.Fatalf("%.2000q: names a model deeper down", body)
	}
}

// differing are bodies that readers of JSON read differently, and bodies with all that is looked for.
var differing = []string{
	`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5}`, `{"mod\u0065l":"m"}`, `{"model":"a","\u006dodel":"b"}`, `{"Model":"a"}`, "{\"max_to\u212aens\":5}", `{"ſtream":true}`,
	`{"model":"\ud800"}`, `{"model":"\ud83d\ude00"}`, `{"model":"m","model":"n","n":0}`, `{"n":0,"model":"m","model":"n"}`, `{"prompt":["a",["b"],1]}`, `{"prompt":[["a"],{"b":1}],"n":3}`, `{"prompt":[]}`,
	`{"prompt":{"id":[1]}}`, `{"prompt":1}`, `{"prompt":{"a":1,"b":"x"}}`, `{"background":"a","audio":{}}`, `{"n":1024,"prompt":["a","b","c","d","e"]}`, `[{"model":"m"}]`, `"model"`, ``, ` `, `{"a":1}x`, "{\"a\":\"\xff\"", `{"a":` + strings.Repeat("[", 1001),
	`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}]}`,
	`{"tools":[{"type":"image_generation"}]}`, `{"tools":[{"TYPE":"Image_Generation"}]}`, `{"tools":[{"t\u0079pe":"image_generation"}]}`, `{"tools":[{"type":"\u0069mage_generation"}]}`, `{"tools":[{"type":"İmage_generation"}]}`,
	`{"tools":[{"type":"advisor_20260301"}]}`, `{"tools":[{"id":"openrouter:fusion","model":"m"}]}`, `{"tools":[{"model":"a","model":"b"}]}`, `{"tools":[{"Model":"a"}]}`, `{"tools":[{"tools":[{"tools":[{"tools":[{}]}]}]}]}`,
	`{"plugins":[{"id":"a","parameters":{"model":"m"}}]}`, `{"plugins":[{"id":"fusion","parameters":{"analysis_models":["a"],"model":"b"}}]}`, `{"plugins":{"model":1},"tools":"x"}`, `{"tools":[{"type":"function","mod\u0065l":"a"}]}`,
	`{"models":["a"],"fallbacks":[{"model":"b"}],"extra_body":{"tools":[{"model":"c"}],"user":"u"},"providerOptions":{"x":{"models":["d"]}},"route":"fallback"}`,
	`{"stream_options":{"include_usage":true,"include\u005fusage":false}}`, `{"stream":true,"stream_options":{"include_usage":null}}`, `{"integrations":[],"purpose":"p","endpoint":"/v1/x","store":false}`,
	`{"file_id":"f","x":{"file_ids":["a","\u0062"]},"File_Id":"g"}`, `{"file_id":1}`, `{"file_ids":["f",[7]]}`, `{"file_ids":[true]}`, `{"metadata":{"file_id":1,"File_Id":2,"x":{"id":"y"}}}`, `{"file\u005fid":"f","file_id":"g"}`,
	`{"input":[{"id":"a"},{"id":"b","type":"message"},{"id":"c","type":"item_reference"},["d",{"id":"e"}],{"id":"f","content":""}]}`, `{"Input":[{"ID":"a"}],"container":{"id":"c","skills":[{"type":"anthropic","skill_id":"s"},{"type":"custom","skill_id":"t"}]}}`,
	`{"input":[{"type":"reasoning","id":"r","encrypted_content":"x"},{"type":"reasoning","id":"s","encrypted_content":"","encrypted_content":"y"},{"type":"reasoning","id":"t","encrypted_content":{}}]}`,
	`{"skill_id":"s","type":"anthropic","id":"x","Type":"image_generation_call"}`, `{"audio":{"id":"a"},"Audio":{"ID":"b"},"container":"c"}`, `{"":"x","file_id":"f","":{"":""}}`, `{"messages":[{"model":"deep"}]}`, `{"a":{"mod\u0065l":"deep"}}`,
	`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUFB"}}]}]}`,
}

// fuzzed are the bodies that fuzzing found to take ways of their own through the readers.
func fuzzed(t testing.TB) (bodies []string) {
	t.Helper()
	text := testkit.Must(os.ReadFile("testdata/fuzzed.txt"))(t)
	for line := range strings.Lines(string(text)) {
		body, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

func TestRead_AgreesWithASecondReader(t *testing.T) {
	for _, body := range append(fuzzed(t), differing...) {
		checkRead(t, []byte(body))
	}
	for name, build := range hostile {
		t.Run(name, func(t *testing.T) { checkRead(t, []byte(build(4<<10))) })
	}
	r := rand.New(rand.NewSource(1))
	for range 4_000 {
		checkRead(t, randomBody(r))
	}
}

// randomBody is a body with keys that mean something, at all places, now and then damaged.
func randomBody(r *rand.Rand) []byte {
	body := []byte(randomObject(r, 0))
	if r.Intn(4) == 0 {
		body[r.Intn(len(body))] = `"\{}[],:0e.-x `[r.Intn(14)]
	}
	return body
}

func randomObject(r *rand.Rand, depth int) string {
	names := append(slices.Clone(referring), slices.Sorted(maps.Keys(governed))...)
	names = append(names, "type", "id", "content", "encrypted_content", "metadata", "input", "messages", "skills", "audio", "function", "parameters", "x", "", "include_usage", "analysis_models")
	var list []string
	for range r.Intn(5) {
		name := names[r.Intn(len(names))]
		switch r.Intn(12) {
		case 0:
			name = strings.ToUpper(name)
		case 1:
			name = strings.NewReplacer("k", "\u212a", "s", "ſ", "o", `\u006f`, "i", "İ").Replace(name)
		case 2:
			name = strings.Replace(name, "e", `\u0065`, 1)
		}
		list = append(list, `"`+name+`" :`+randomValue(r, depth))
	}
	return "{" + strings.Join(list, ",") + "}"
}

func randomValue(r *rand.Rand, depth int) string {
	kind := r.Intn(10)
	if depth > 5 {
		kind = r.Intn(6)
	}
	switch kind {
	case 0:
		return []string{"1", "0", "-1.5", "1e3", "4096", "true", "false", "null"}[r.Intn(8)]
	case 1, 2, 3, 4, 5:
		texts := []string{`"m"`, `""`, `"function"`, `"image_generation"`, `"item_reference"`, `"reasoning"`, `"anthropic"`, `"file-1"`, `"\u0066ile"`, `"reas\u006fning"`, `"\ud83d\ude00"`, `"fusion"`, `"openrouter:x"`, `"fallback"`, `"QUFB"`}
		return texts[r.Intn(len(texts))]
	case 6, 7:
		var list []string
		for range r.Intn(4) {
			list = append(list, randomValue(r, depth+1))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return randomObject(r, depth+1)
}

// FuzzRead compares Read with the second reader.
func FuzzRead(f *testing.F) {
	for _, body := range append(fuzzed(f), differing...) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkRead(t, body)
		if json.Valid(body) && WellFormed(body) == nil {
			line := []byte(`{"url":"/v1/x","body":` + string(body) + `}`)
			l, refused := ReadLine(line, anyURL)
			want := &Head{}
			problem := rereadHead(want, body)
			if (l.Head == nil) != (refused != nil) {
				t.Fatalf("%q: in a line %+v, refused %v", body, l.Head, refused)
			}
			if problem == nil && (refused != nil || l.Head.Model != want.Model || l.Head.Copies != want.Copies || l.Head.bounds != want.bounds) {
				t.Fatalf("%q: in a line %+v, want %+v", body, l.Head, want)
			}
		}
	})
}

// Reading a body allocates its Head and the names in it, however long the body is, and whichever key has the long text.
//
// Seen to fail with: each string unescaped that has a backslash; gjson's own ForEach for the members of a value.
func TestRead_Allocates(t *testing.T) {
	check := func(name, text string, most uint64) {
		body := []byte(text)
		var r Reader
		spent := testkit.Allocated(t, 4, func() { _ = r.Read(&Head{}, body) })
		if spent.Objects > most || spent.Bytes > 10<<10 {
			t.Errorf("%s: %+v", name, spent)
		}
	}
	escapes := strings.Repeat(`\"quoted\"\n \u00e9 `, 10_000)
	for name, content := range map[string]string{
		"prose":    strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10_000),
		"escapes":  escapes,
		"messages": strings.Repeat(`"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function"}],"content":"`, 10_000),
		"tools":    strings.Repeat(`"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"x":[{"y":"`, 1),
	} {
		check(name, `{"model":"gpt-4o","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"`+content+`"}]}`, 2)
	}
	for key := range governed {
		for _, value := range []string{`"%s"`, `["%s"]`, `{"x":"%s"}`, `{"x":{"x":"%s"}}`, `[{"model":"m","x":"%s"}]`, `[{"type":"%[1]s","id":"%[1]s"}]`} {
			check(key+": "+value, `{"`+key+`":`+fmt.Sprintf(value, escapes)+`}`, 10)
		}
	}
}
