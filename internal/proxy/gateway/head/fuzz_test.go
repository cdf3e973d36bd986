package head

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// pair is a member of an object as the token stream of encoding/json has it.
type pair struct {
	key string // unescaped
	raw string // of the value
}

// members reads the members of a JSON object, all occurrences of a key.
func members(body []byte) ([]pair, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no object: %v %v", t, err)
	}
	var out []pair
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		out = append(out, pair{t.(string), string(raw)})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return out, nil
}

// foldReader is a server written with encoding/json: it ignores the case of
// keys, and the last of several wins.
type foldReader struct {
	Model               json.RawMessage `json:"model"`
	Stream              json.RawMessage `json:"stream"`
	StreamOptions       json.RawMessage `json:"stream_options"`
	MaxTokens           json.RawMessage `json:"max_tokens"`
	MaxCompletionTokens json.RawMessage `json:"max_completion_tokens"`
	MaxOutputTokens     json.RawMessage `json:"max_output_tokens"`
	N                   json.RawMessage `json:"n"`
	BestOf              json.RawMessage `json:"best_of"`
}

func (f *foldReader) byKey() map[string]string {
	return map[string]string{
		"model": string(f.Model), "stream": string(f.Stream), "stream_options": string(f.StreamOptions),
		"max_tokens": string(f.MaxTokens), "max_completion_tokens": string(f.MaxCompletionTokens),
		"max_output_tokens": string(f.MaxOutputTokens), "n": string(f.N), "best_of": string(f.BestOf),
	}
}

// A name is what encoding/json reads, also behind half a surrogate pair.
func TestRead_NamesWithHalfSurrogates(t *testing.T) {
	for _, name := range []string{`\ud83d\u0041`, `\ud83dA`, `\ud83d\ued00\\`, `\udc00\ud83d`, `\ud83d\ud83d\ude00`} {
		var want string
		testkit.OK(t, json.Unmarshal([]byte(`"`+name+`"`), &want))
		h, problem := Read([]byte(`{"model":"` + name + `","fallbacks":["` + name + `"],"purpose":"` + name + `"}`))
		if problem != nil {
			t.Fatal(problem.Message)
		}
		if h.Model != want || h.Others[0].Model != want || h.Purpose != want {
			t.Errorf("%s: model %q, fallback %q, purpose %q, want %q", name, h.Model, h.Others[0].Model, h.Purpose, want)
		}
	}
}

// Nothing is held at a bound of 0 but a token, -1 and what nobody means are none, and neither is changed unless a tenant's own bound is.
func TestRead_OddBounds(t *testing.T) {
	for value, want := range map[string]int64{"0": 1, "-1": 0, "2147483647": 0, "9223372036854775807.0": 0} {
		for _, name := range boundKeys {
			h, err := Read([]byte(`{"model":"m","` + name + `":` + value + `}`))
			if err != nil || h.Bound(AnyBound) != want {
				t.Errorf("%s %s: %v, bound %d, want %d", name, value, err, h.Bound(AnyBound), want)
				continue
			}
			if edits := h.Clamp(nil, AnyBound, 50); len(edits) != int(1-want) {
				t.Errorf("%s %s: a bound of 50 makes the edits %v", name, value, edits)
			}
		}
	}
}

// FuzzReadHead compares readHead with encoding/json. What readHead accepts must
// mean the same to every reader, before and after it was edited.
func FuzzReadHead(f *testing.F) {
	for _, s := range []string{
		`{}`,
		`{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}`,
		" \r\n\t{ \"model\" : \"m\" , \"stream\" : true }\n",
		`{"stream":true,"stream_options":null}`,
		`{"stream":true,"stream_options":{}}`,
		`{"stream":true,"stream_options":{"include_usage":false,"x":[1,{"include_usage":1}]}}`,
		`{"stream_options":{"include_usage":null},"stream_options":{}}`,
		`{"stream_options":{ "include_obfuscation" : true }}`,
		`{"stream_options":{"include\u005fusage":true}}`,
		`{"max_tokens":5,"max_completion_tokens":null,"max_output_tokens":1000000000}`,
		`{"max_tokens":1e3}`, `{"max_tokens":0,"max_output_tokens":-1}`, `{"max_tokens":-0}`, `{"max_tokens":1.0}`, `{"max_tokens":"5"}`,
		`{"max_\u0074okens":5,"max_tokens":6}`, `{"MAX_TOKENS":5}`, `{"ſtream":true}`, "{\"max_to\u212aens\":5}",
		`{"n":1024,"best_of":null}`, `{"model":"\ud83d\ude00\n\"\\"}`, `{"model":"\ud800"}`, `{"model":"a\u0000"}`, `{"model":"\ud83d\ued00\\"}`,
		`{"metadata":{"max_tokens":7,"stream":"no"},"a":[],"b":{},"c":-1.5e-7,"d":null}`,
		`{"":1,"":2}`, `[{"model":"m"}]`, `{"model":"m"}{"model":"n"}`, "\xef\xbb\xbf{}", `{"model":"m",}`, `{"n":01}`,
	} {
		f.Add([]byte(s), int64(7))
	}
	f.Fuzz(func(t *testing.T, body []byte, most int64) {
		h, problem := Read(body)
		if problem != nil {
			return
		}
		if most < 1 || most > maxCount {
			most = 1 + (most&maxCount+maxCount)%maxCount
		}
		checkHead(t, body, h)
		checkEdited(t, body, most)
	})
}

// checkHead compares what readHead saw in an accepted body with other readers.
func checkHead(t *testing.T, body []byte, h *Head) {
	t.Helper()
	list, err := members(body)
	if err != nil || !json.Valid(body) {
		t.Fatalf("accepted, but encoding/json cannot read it: %v\n%q", err, body)
	}
	raw := map[string]string{}
	for _, m := range list {
		for name := range governed {
			if !strings.EqualFold(name, m.key) {
				continue
			}
			if _, twice := raw[name]; twice || name != m.key {
				t.Fatalf("accepted, but %q is ambiguous\n%q", name, body)
			}
			raw[name] = m.raw
		}
	}
	var last map[string]json.RawMessage
	var fold foldReader
	testkit.OK(t, json.Unmarshal(body, &last))
	testkit.OK(t, json.Unmarshal(body, &fold))
	folded := fold.byKey()
	for name := range governed {
		if string(last[name]) != raw[name] || folded[name] != raw[name] {
			t.Fatalf("%s is %q to one reader, %q to a last-wins one, %q to one that ignores case\n%q", name, raw[name], last[name], folded[name], body)
		}
	}
	checkValues(t, body, h, raw)
}

// checkValues compares the head's values with the raw ones.
func checkValues(t *testing.T, body []byte, h *Head, raw map[string]string) {
	t.Helper()
	model := ""
	if raw["model"] != "" {
		if err := json.Unmarshal([]byte(raw["model"]), &model); err != nil || model == "" {
			t.Fatalf("accepted model %s: %v", raw["model"], err)
		}
	}
	if h.Model != model {
		t.Errorf("model is %q, to encoding/json %q\n%q", h.Model, model, body)
	}
	if s := raw["stream"]; s != "" && s != "true" && s != "false" && s != "null" || h.Stream != (s == "true") {
		t.Errorf("stream %s reads as %v", s, h.Stream)
	}
	for i, name := range boundKeys {
		f := h.bounds[i]
		if f.present != (raw[name] != "") {
			t.Errorf("%s: present is %v, the value %q", name, f.present, raw[name])
		} else if f.present && string(body[f.start:f.end]) != raw[name] {
			t.Errorf("%s: the place holds %q, the value is %q\n%q", name, body[f.start:f.end], raw[name], body)
		} else if got := bound(t, name, raw[name]); got != f.value {
			t.Errorf("%s: %d, to encoding/json %d", name, f.value, got)
		}
	}
	if want := max(1, count(t, "n", raw["n"]), count(t, "best_of", raw["best_of"])); h.Copies != want || want > 1024 {
		t.Errorf("copies: %d, want %d (at most 1024)", h.Copies, want)
	}
	checkstreamOptions(t, body, h, raw["stream_options"])
}

func checkstreamOptions(t *testing.T, body []byte, h *Head, raw string) {
	t.Helper()
	so := &h.streamOptions
	if so.present != (raw != "") || so.present && string(body[so.start:so.end]) != raw {
		t.Fatalf("stream_options: present is %v, the value %q\n%q", so.present, raw, body)
	}
	want := false
	if raw != "" && raw != "null" {
		list, err := members([]byte(raw))
		if err != nil {
			t.Fatalf("accepted stream_options %s: %v", raw, err)
		}
		seen := 0
		for _, m := range list {
			if strings.EqualFold(m.key, "include_usage") {
				seen++
				want = m.raw == "true"
				if string(body[so.usageField.start:so.usageField.end]) != m.raw {
					t.Errorf("include_usage: the place holds %q, the value is %q", body[so.usageField.start:so.usageField.end], m.raw)
				}
			}
		}
		if seen > 1 {
			t.Fatalf("accepted, but include_usage is ambiguous\n%q", body)
		}
	}
	if so.includeUsage != want {
		t.Errorf("include_usage reads as %v in %s", so.includeUsage, raw)
	}
}

// bound is count, but for 0, which is held at 1, and -1, which is none.
func bound(t *testing.T, name, raw string) int64 {
	t.Helper()
	switch v, err := strconv.ParseFloat(raw, 64); {
	case err == nil && v == 0:
		return 1
	case v == -1, err == nil && v > maxCount && v == math.Trunc(v):
		return noBound
	}
	return count(t, name, raw)
}

// count is a whole number from 1 on, 0 for null or nothing.
func count(t *testing.T, name, raw string) int64 {
	t.Helper()
	if raw == "" || raw == "null" {
		return 0
	}
	v, err := strconv.ParseFloat(raw, 64)
	n := int64(v)
	if err != nil || n < 1 || n > maxCount || float64(n) != v {
		t.Fatalf("accepted %s: %s", name, raw)
	}
	return n
}

// checkEdited edits an accepted body as a governed call's is, and reads it again.
func checkEdited(t *testing.T, body []byte, most int64) {
	t.Helper()
	for _, names := range [][]Bound{chatBounds, completionsBounds, responsesBounds} {
		h, _ := Read(body)
		edits := h.Clamp(nil, names, most)
		// An empty object has no model, so no call with one is edited twice.
		if !h.empty {
			edits, _ = h.AskForUsage(edits)
		}
		out := splice.Copy(body, edits)
		again, problem := Read(out)
		if problem != nil {
			t.Fatalf("edited, it is refused: %s\n%q\n%q", problem.Message, body, out)
		}
		checkHead(t, out, again)
		bounded := int64(0)
		for i := range again.bounds {
			f := again.bounds[i]
			if f.present && (f.value == 0 || f.value > most) {
				t.Errorf("%s is %d after a clamp to %d", boundKeys[i], f.value, most)
			}
		}
		bounded = again.Bound(names)
		if bounded == 0 || bounded != h.Bound(names) {
			t.Errorf("the bound is %d in the edited body, %d to the gateway\n%q", bounded, h.Bound(names), out)
		}
		if !h.empty && !again.streamOptions.includeUsage {
			t.Errorf("usage is not asked for after the edit\n%q", out)
		}
		if again.Model != h.Model || again.Stream != h.Stream || again.Copies != h.Copies {
			t.Errorf("the edit changed more than it should\n%q\n%q", body, out)
		}
		testkit.Same(t, ungoverned(t, body), ungoverned(t, out), "the edit changed other members (-before +after)")
	}
}

// ungoverned are all members but those that an edit may change, in order. Of
// stream_options those beside include_usage stay.
func ungoverned(t *testing.T, body []byte) []pair {
	t.Helper()
	list := testkit.Must(members(body))(t)
	out := []pair{}
	for _, m := range list {
		switch m.key {
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
		case "stream_options":
			if m.raw == "null" {
				continue
			}
			inner := testkit.Must(members([]byte(m.raw)))(t)
			for _, i := range inner {
				if i.key != "include_usage" {
					out = append(out, pair{m.key + "." + i.key, i.raw})
				}
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

// pair's fields are compared by cmp.
func (p pair) Equal(q pair) bool { return p == q }
