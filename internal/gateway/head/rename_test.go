package head

import (
	"testing"

	"github.com/llmgov/llmgov/internal/splice"
)

// Only the value of the model changes, whatever is around it and whatever else is
// edited.
func TestRename_JSON(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"fast"}`: `{"model":"gpt-4o"}`,
		"{ \"n\" : 1 ,\n\t\"model\"\t:  \"fast\" , \"x\":\"fast\"}\n": "{ \"n\" : 1 ,\n\t\"model\"\t:  \"gpt-4o\" , \"x\":\"fast\"}\n",
		`{"x":{"model":"fast"},"model":"f\u0061st"}`:                  `{"x":{"model":"fast"},"model":"gpt-4o"}`,
		`{"user":"ü\"model\":\"fast\"","model":"fast"}`:               `{"user":"ü\"model\":\"fast\"","model":"gpt-4o"}`,
	} {
		h, err := Read([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := string(splice.Copy([]byte(body), []splice.Edit{h.Rename("gpt-4o")})); h.Model != "fast" || got != want {
			t.Errorf("%s (model %s) becomes\n%s, want\n%s", body, h.Model, got, want)
		}
	}
	h, err := Read([]byte(`{"model":"fast","stream":true,"max_tokens":9}`))
	if err != nil {
		t.Fatal(err)
	}
	edits, _ := h.AskForUsage(h.Clamp(nil, chatBounds, 5))
	got := string(splice.Copy([]byte(`{"model":"fast","stream":true,"max_tokens":9}`), append(edits, h.Rename(`a"b`))))
	if want := `{"stream_options":{"include_usage":true},"model":"a\"b","stream":true,"max_tokens":5}`; got != want {
		t.Errorf("with other edits it becomes\n%s, want\n%s", got, want)
	}
}
