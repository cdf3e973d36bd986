package objects

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// readForms is an upstream that keeps the fields of the last form.
type readForms struct{ fields, files map[string][]string }

func (u *readForms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.fields = map[string][]string{}
	u.files = map[string][]string{}
	_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	for parts := multipart.NewReader(r.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(part)
		if part.FileName() == "" {
			u.fields[part.FormName()] = append(u.fields[part.FormName()], string(text))
		} else {
			u.files[part.FormName()] = append(u.files[part.FormName()], part.FileName()+" "+part.Header.Get("Content-Type")+" "+string(text))
		}
	}
	_, _ = io.WriteString(w, `{"text":"x"}`)
}

// Forms in which some server finds another model than the gateway are refused, on every route that has a
// form, and so are files behind the end.
func TestAudit_M3_Forms(t *testing.T) {
	up := &readForms{}
	s := sockets.New(t, sockets.World{Upstream: up, Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
		sockets.Granted(t)
		t.DefaultPool = "main"
		t.Models = []string{"gpt-4o", "wild-*"}
	})}})
	const ok = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ngpt-4o\r\n"
	const bad = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\no3\r\n"
	named := func(head, value string) string { return "--b\r\n" + head + "\r\n\r\n" + value + "\r\n" }
	field := func(name, value string) string {
		return named(`Content-Disposition: form-data; name="`+name+`"`, value)
	}
	const calls = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{\"body\":{\"model\":\"o3\"}}\r\n"
	for name, body := range map[string]string{
		"a part delimited by bare LF":         field("x", "foo\n--b\nContent-Disposition: form-data; name=\"model\"\n\no3") + ok + "--b--\r\n",
		"a bare CR in the preamble":           "x\r--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\no3\r" + ok + "--b--\r\n",
		"two closing boundaries":              ok + "--b--\r\n" + bad + "--b--",
		"a batch file behind the first close": field("purpose", "batch") + "--b--\r\n" + calls + "--b--",
		"a head that ends with bare LF":       "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ngpt-4o\r\n--b\r\nContent-Disposition: form-data; name=\"x\"\n\n--b--\r\n" + bad + "--b--\r\n",
		"a parameter that ends in name":       named(`Content-Disposition: form-data; x-name="model"; name="x"`, "o3") + ok + "--b--\r\n",
		"quoted-printable":                    named("Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: quoted-printable", "wild-=67=70t") + "--b--\r\n",
		"blanks behind a boundary":            strings.Replace(ok, "--b\r\n", "--b \t\r\n", 1) + "--b--\r\n",
		"a charset":                           named("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=utf-7", "wild-+AG8-") + "--b--\r\n",
		"model as a list":                     ok + field("model[]", "o3") + "--b--\r\n",
		"model in capitals":                   ok + field("Model", "o3") + "--b--\r\n",
		"a part of model":                     ok + field("model.name", "o3") + "--b--\r\n",
		"model as a file":                     named(`Content-Disposition: form-data; name="model"; filename="x"`, "o3") + ok + "--b--\r\n",
		"models":                              ok + field("models", "o3") + "--b--\r\n",
		"fallbacks":                           ok + field("fallbacks[0][model]", "o3") + "--b--\r\n",
		"a zero byte":                         field("model", "wild-\x00") + "--b--\r\n",
		"stream as a number":                  ok + field("stream", "1") + "--b--\r\n",
		"stream as a list":                    ok + field("stream[]", "true") + "--b--\r\n",
		"very many answers":                   ok + field("n", "5000") + "--b--\r\n",
		"n twice":                             ok + field("n", "1") + field("n", "5000") + "--b--\r\n",
	} {
		for _, path := range []string{"/audio/transcriptions", "/audio/translations", "/images/edits", "/images/variations", "/files"} {
			before := s.Seen.Count()
			if status, text := s.SendAs("acme", http.MethodPost, "/v1"+path, formType, body); status != http.StatusBadRequest || s.Seen.Count() != before {
				t.Errorf("%s: %s: %d %s", path, name, status, text)
			}
		}
	}

	// What is read is written anew, with nothing else.
	status, text := s.SendAs("acme", http.MethodPost, "/v1/audio/transcriptions", formType,
		field("model", "gpt-4o")+field("stream", "False")+field("timestamp_granularities[]", "word")+field("timestamp_granularities[]", "segment")+
			named("Content-Disposition: form-data; name=prompt\r\nContent-Type: text/plain; charset=utf-8", "é\r\n--")+
			named("content-type: Audio/Wav\r\ncontent-disposition: form-data; name=\"file\"; filename=\"ü;.wav\"\r\ncontent-length: 5", "\x00\xff\r\n-")+"--b--")
	if status != http.StatusOK {
		t.Fatal(status, text)
	}
	sent := s.Seen.Last(t)
	if strings.Contains(sent.Body, "--b\r") || sent.Header.Get("Content-Type") == formType || strings.Contains(strings.ToLower(sent.Body), "length") {
		t.Errorf("the form is passed on as it came: %q", sent.Body)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(sent.Body))
	r.Header = sent.Header
	up.ServeHTTP(httptest.NewRecorder(), r)
	if got := up.fields; strings.Join(got["model"], ",") != "gpt-4o" || strings.Join(got["stream"], ",") != "false" || strings.Join(got["prompt"], ",") != "é\r\n--" ||
		strings.Join(got["timestamp_granularities[]"], ",") != "word,segment" || len(got) != 4 {
		t.Errorf("the upstream reads %q", got)
	}
	if got := up.files; strings.Join(got["file"], ",") != "ü;.wav audio/wav \x00\xff\r\n-" || len(got) != 1 {
		t.Errorf("the upstream reads the files %q", got)
	}
}
