package head

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/tidwall/gjson"
)

func TestReferences(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{`{}`, ``},
		{`{"file_id":"f"}`, `file_id=f`},
		{`{"file_ids":["f","g"],"x":1}`, `file_ids=f file_ids=g`},
		{`{"training_file":"f","validation_file":null}`, `training_file=f`},
		{`{"previous_response_id":"resp_1"}`, `previous_response_id=resp_1`},
		{`{"tools":[{"type":"file_search","vector_store_ids":["v"]},{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]}`, `vector_store_ids=v file_ids=f`},
		{`{"tools":[{"type":"code_interpreter","container":"cntr_1"}]}`, `container=cntr_1`},
		{`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`, `file_id=f`},
		{`{"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]},{"type":"item_reference","id":"msg_1"}]}`, `file_id=f id=msg_1`},
		{`{"input":[{"id":"ig_1","type":"image_generation_call"}]}`, `id=ig_1`},
		{`{"input":[{"id":"rs_1","type":"reasoning","summary":[]}]}`, `id=rs_1`},
		{`{"input":[{"id":"rs_1","type":"reasoning","encrypted_content":"x"}]}`, ``},
		{`{"input":[{"id":"rs_1","type":"reasoning","encrypted_content":""}]}`, `id=rs_1`},
		{`{"input":[{"id":"rs_1","type":"reasoning","encrypted_content":"x","encrypted_content":null}]}`, `id=rs_1`},
		{`{"input":[{"id":"msg_1","type":"message","content":"hi"}]}`, ``},
		{`{"input":[{"id":"msg_1"}]}`, `id=msg_1`}, // the type of a reference may be left out
		{`{"input":[{"id":"msg_1","type":null}]}`, `id=msg_1`},
		{`{"input":[{"id":"msg_1","role":"user","content":"hi"}]}`, ``},
		{`{"input":[{"type":"item_reference","id":"msg_1","encrypted_content":"x"}]}`, `id=msg_1`},
		{`{"tools":[{"id":"x"}],"input":[["y",{"type":"message","x":{"id":"z"}}]]}`, ``},
		{`{"container":{"id":"c","skills":[]}}`, `id=c`},
		{`{"container":{"type":"auto","encrypted_content":"x","id":"c"}}`, `id=c`},
		{`{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}],"audio":{"voice":"alloy"}}`, `id=audio_1`},
		{`{"input":[{"type":"message","type":"item_reference","id":"a","ID":"b"}]}`, `id=a id=b`},
		{`{"input":[{"Type":"item_reference","id":"a"}]}`, `id=a`},
		// Some readers take the one of two values, or no key of another case, and see no type, or no content.
		{`{"input":[{"Type":"message","id":"a"}]}`, `id=a`},
		{`{"input":[{"type":"message","type":null,"id":"a"}]}`, `id=a`},
		{`{"input":[{"type":null,"type":"message","id":"a"}]}`, `id=a`},
		{`{"input":[{"id":"a","content":null}]}`, `id=a`},
		{`{"input":[{"id":"a","content":[],"content":null}]}`, `id=a`},
		{`{"input":[{"id":"rs_1","type":"reasoning","encrypted_content":"x","encrypted_content":""}]}`, `id=rs_1`},
		{`{"skills":[{"type":"anthropic","type":null,"skill_id":"s"}]}`, `skill_id=s`},
		{`{"skills":[{"type":"anthropic","skill_id":"pdf"}]}`, ``},
		{`{"file\u005fid":"f"}`, `file_id=f`},
		{`{"file_id":"\u0066"}`, `file_id=f`},
		{`{"a":"\"file_id\":\"f\""}`, ``},
		{`{"files":[{"file_id":"f","attributes":{"file_id":"mine"}}],"metadata":{"file_id":"mine"}}`, `file_id=f`},
		{`{"tools":[{"function":{"parameters":{"properties":{"file_id":{"type":"string"}},"required":["file_id"]}}}]}`, ``},
		{`{"file_ids":[{"file_id":"f"}]}`, `file_id=f`},
		{`{"file_ids":[["f"]]}`, `file_ids=f`},
		{`{"":"x","file_id":"f"}`, `file_id=f`},
		{`{"File_Id":"f"}`, `!only by case`},
		{`{"FILE_IDS":["f"]}`, `!only by case`},
		{`{"vector_ſtore_ids":["v"]}`, `!only by case`},
		{`{"file_id":"f","file_id":"g"}`, `!twice`},
		{`{"file_id":"f","file\u005fid":"g"}`, `!twice`},
		{`{"file_id":1}`, `!must be a text`},
		{`{"file_ids":["f",7]}`, `!must be a text`},
		{`{"properties":{"file_id":true}}`, ``},
	} {
		got, err := references([]byte(tt.body))
		if why, bad := strings.CutPrefix(tt.want, "!"); bad {
			if err == nil || !strings.Contains(err.Message, why) {
				t.Errorf("%s: %v, want an error with %q", tt.body, err, why)
			}
			continue
		}
		var list []string
		for _, r := range got {
			list = append(list, r.Key+"="+r.ID)
		}
		if err != nil || strings.Join(list, " ") != tt.want {
			t.Errorf("%s refers to %q (%v), want %q", tt.body, strings.Join(list, " "), err, tt.want)
		}
	}
}

// plainReferences is a second reader: encoding/json into maps, which takes the last of
// two keys and knows no places. What it finds the walker must have found, or refused.
// It leaves alone what is not searched under a key in any place.
func plainReferences(v any, free bool) (found []string) {
	switch v := v.(type) {
	case map[string]any:
		looks := false
		sealed := false
		if kind, ok := v["type"].(string); ok {
			looks = looked[kind]
			text, _ := v["encrypted_content"].(string)
			sealed = kind == reasoning && text != ""
		}
		for key, x := range v {
			_, isMap := x.(map[string]any)
			inner := free || slices.Contains(opaque, key) || isMap && slices.Contains([]string{"annotations", "variables", "configs", "graders", "input"}, key)
			found = append(found, plainReferences(x, inner)...)
			if free || !slices.Contains(referring, strings.ToLower(key)) && (key != "id" || !looks || sealed) {
				continue
			}
			if list, ok := x.([]any); ok && key != "id" {
				for _, x := range list {
					if text, ok := x.(string); ok {
						found = append(found, text)
					}
				}
			} else if text, ok := x.(string); ok {
				found = append(found, text)
			}
		}
	case []any:
		for _, x := range v {
			found = append(found, plainReferences(x, free)...)
		}
	}
	return found
}

// references are those of a document that stands alone.
func references(body []byte) ([]Reference, *Error) { return Walk(body, nil) }

func FuzzReferences(f *testing.F) {
	for _, body := range []string{
		`{"file_id":"f"}`, `{"file_ids":["f",{"file_id":"g"}]}`, `{"input":[{"type":"item_reference","id":"x"}]}`, `{"metadata":{"file_id":"x"}}`,
		`{"file\u005fid":"\ud83d\ude00"}`, `{"File_Id":"f"}`, `{"a":[1,-2e3,true,null,"\\\""],"container":"c"}`, `{"":{"":"x"},"batch_id":"b"}`,
		`{"type":"reasoning","id":"r","encrypted_content":"x","encrypted_content":[]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if WellFormed(body) != nil || !gjson.ParseBytes(body).IsObject() {
			return
		}
		got, problem := references(body)
		if problem != nil {
			return
		}
		have := map[string]bool{}
		for _, r := range got {
			have[r.ID] = true
		}
		var v any
		if json.Unmarshal(body, &v) != nil {
			return
		}
		for _, id := range plainReferences(v, false) {
			if objects.IsID(id) && !have[id] {
				t.Fatalf("%s refers to %q, but the walker found %v", body, id, got)
			}
		}
		// What is skipped without a walk refers to nothing that chat can refer to.
		if !MayRefer(body) {
			for _, r := range got {
				if strings.Contains(r.Key, "_id") {
					t.Fatalf("%s is not walked, and has %v", body, r)
				}
			}
		}
	})
}

// A body nests as deep as it may, and is large: one pass, and not one for each level.
func TestReferencesReadOnce(t *testing.T) {
	body := []byte(strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 8<<20) + `"` + strings.Repeat("}", 900))
	steps := 0
	f := finder{}
	f.reset(body)
	s := jsonscan.New(body)
	for token := s.Next(); token.Kind != jsonscan.End; token = s.Next() {
		if token.Kind == jsonscan.Invalid {
			t.Fatal("not JSON")
		}
		f.token(token)
		steps++
	}
	if steps > 10_000 {
		t.Errorf("%d steps for %d tokens", steps, 900*4)
	}
}

// What the bodies of one conversation have in common, and what those of others have not.
func TestConversation(t *testing.T) {
	const (
		system = `{"role":"system","content":"Be brief."}`
		hello  = `{"role":"user","content":"Hello!"}`
		parts  = `{"role":"user","content":[{"type":"text","text":"Hello!","cache_control":{"type":"ephemeral"}}]}`
		plain  = `{"content":[{"text":"Hello!","type":"text"}],"role":"user"}`
		answer = `{"role":"assistant","content":"Good morning."}`
		later  = `{"role":"user","content":"And now?"}`
	)
	long := strings.Repeat("The same rules for everybody. ", 100)
	read := func(t *testing.T, body string) Conversation {
		t.Helper()
		h, err := Read([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return h.Conversation
	}
	messages := func(list ...string) string { return `{"messages":[` + strings.Join(list, ",") + `]}` }
	for name, bodies := range map[string][]string{
		"a conversation that goes on":          {messages(system, hello), messages(system, hello, answer, later)},
		"a breakpoint of the cache that moves": {messages(parts), messages(plain, answer, later)},
		"items of responses":                   {`{"input":[` + hello + `]}`, `{"input":[` + hello + `,{"type":"reasoning","id":"rs_1","summary":[]},` + later + `]}`},
		"the same key, whatever it is called":  {`{"prompt_cache_key":"k","messages":[` + hello + `]}`, `{"messages":[` + hello + `],"prompt_cache_key":"k"}`},
		"a session of Claude Code":             {`{"metadata":{"user_id":"user_1_account_2_session_3"}}`, `{"metadata":{"x":{"user_id":"4"},"user_id":"user_1_account_2_session_3"}}`},
		"a picture before the first text":      {messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a"}},{"type":"text","text":"x"}]}`), messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a"}},{"type":"text","text":"x"}]}`, answer)},
	} {
		first := read(t, bodies[0])
		if first == (Conversation{}) {
			t.Errorf("%s: not found", name)
		}
		if got := read(t, bodies[1]); got != first {
			t.Errorf("%s: %x and %x", name, first, got)
		}
	}
	for name, bodies := range map[string][2]string{
		"other first questions": {messages(system, hello), messages(system, later)},
		"other instructions":    {messages(system, hello), messages(hello)},
		"other keys":            {`{"prompt_cache_key":"a"}`, `{"prompt_cache_key":"b"}`},
		"one begins alike":      {messages(`{"role":"user","content":"` + long + `a"}`), messages(`{"role":"user","content":"` + long + `b"}`)},
		"one ends alike":        {messages(`{"role":"user","content":"a` + long + `"}`), messages(`{"role":"user","content":"b` + long + `"}`)},
		"one is longer":         {messages(`{"role":"user","content":"` + long + long + `"}`), messages(`{"role":"user","content":"` + long + `"}`)},
	} {
		if a, b := read(t, bodies[0]), read(t, bodies[1]); a == b {
			t.Errorf("%s: both %x", name, a)
		}
	}
	for name, body := range map[string]string{
		"no messages":                `{}`,
		"nothing of the user":        messages(system, answer),
		"a user without a session":   `{"metadata":{"user_id":"u-1"}}`,
		"a key of another object":    `{"x":{"prompt_cache_key":"a"},"tools":[{"messages":[` + hello + `]}]}`,
		"a key that is no text":      `{"prompt_cache_key":7}`,
		"texts that are not content": messages(`{"role":"user","name":"Hello!"}`),
		"texts to be embedded":       `{"input":["a","b"]}`,
	} {
		if got := read(t, body); got != (Conversation{}) {
			t.Errorf("%s: %x", name, got)
		}
	}
}

// Finding the conversation of a body allocates nothing.
func TestConversation_Allocations(t *testing.T) {
	body := []byte(`{"prompt_cache_key":"k","messages":[{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}]}`)
	var r Reader
	h := &Head{}
	if n := testkit.Allocs(t, 100, func() {
		*h = Head{}
		_ = r.Read(h, body)
	}); n > 0 {
		t.Errorf("%d allocations", n)
	}
}
