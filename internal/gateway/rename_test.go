package gateway

import (
	"net/http"
	"strings"
	"testing"
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
		h, err := readHead([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := string(splice([]byte(body), h.rename(nil, "gpt-4o"))); h.model != "fast" || got != want {
			t.Errorf("%s (model %s) becomes\n%s, want\n%s", body, h.model, got, want)
		}
	}
	h, err := readHead([]byte(`{"model":"fast","stream":true,"max_tokens":9}`))
	if err != nil {
		t.Fatal(err)
	}
	edits, _ := h.askForUsage(h.clamp(nil, routes["/chat/completions"], 5))
	got := string(splice([]byte(`{"model":"fast","stream":true,"max_tokens":9}`), h.rename(edits, `a"b`)))
	if want := `{"stream_options":{"include_usage":true},"model":"a\"b","stream":true,"max_tokens":5}`; got != want {
		t.Errorf("with other edits it becomes\n%s, want\n%s", got, want)
	}
}

// form is a body of parts, each its header and its content; a part that is empty ends
// it.
func form(newline string, parts ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(parts); i += 2 {
		b.WriteString("--B" + newline + parts[i] + newline + newline + parts[i+1] + newline)
	}
	return b.String() + "--B--" + newline
}

func TestRename_Form(t *testing.T) {
	const model, prompt = `Content-Disposition: form-data; name="model"`, `Content-Disposition: form-data; name="prompt"`
	const file = "Content-Type: audio/wav\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\""
	tricky := "\r\n--Bx\r\n\r\n--Bfast\r\n\r\nfast\r\n-" // looks like delimiters
	for name, parts := range map[string][]string{
		"alone":                            {model, "fast"},
		"first":                            {model, "fast", prompt, "fast"},
		"behind a file":                    {file, tricky, prompt, "fast", model, "fast", prompt, ""},
		"behind a part that looks like it": {prompt, "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nfast", model, "fast"},
	} {
		for _, before := range []string{"", "a preamble\r\n"} {
			body := before + form("\r\n", parts...)
			c := &call{route: routes["/audio/transcriptions"], body: []byte(body), r: &http.Request{Header: http.Header{"Content-Type": {"multipart/form-data; boundary=B"}}}}
			if f := c.readHead(); f != nil {
				t.Fatalf("%s: %v", name, f.message)
			}
			edits, f := c.rename(nil, "whisper-large")
			if f != nil {
				t.Errorf("%s: %s", name, f.message)
				continue
			}
			i := strings.LastIndex(body, model+"\r\n\r\nfast") + len(model)
			want := body[:i] + "\r\n\r\nwhisper-large" + body[i+len("\r\n\r\nfast"):]
			if got := string(splice(c.body, edits)); got != want {
				t.Errorf("%s becomes\n%q, want\n%q", name, got, want)
			}
		}
	}
}

// What is found is always what multipart read, or nothing is.
func FuzzModelInForm(f *testing.F) {
	f.Add(form("\r\n", `Content-Disposition: form-data; name="model"`, "fast"))
	f.Add("x\n" + form("\n", "Content-Disposition: form-data; name=\"file\"; filename=\"a\"", "\n--B", `Content-Disposition: form-data; name="model"`, "fast"))
	f.Add("--B \r\n\r\n\r\n--B\t\r\nContent-Disposition: form-data;\r\n name=model\r\n\r\nm\r\n--B--")
	f.Fuzz(func(t *testing.T, body string) {
		const kind = "multipart/form-data; boundary=B"
		h, err := readForm([]byte(body), kind)
		if err != nil || h.model == "" {
			return
		}
		at, err := modelInForm([]byte(body), kind)
		if err != nil {
			return
		}
		renamed := body[:at.start] + "other" + body[at.end:]
		again, err := readForm([]byte(renamed), kind)
		if body[at.start:at.end] != h.model || err != nil || again.model != "other" {
			t.Errorf("%q becomes %q: %v, %v", body, renamed, again, err)
		}
	})
}
