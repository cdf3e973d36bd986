package head

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

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
