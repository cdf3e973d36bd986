package objects

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
	"github.com/tidwall/gjson"
)

// batchProvider keeps one file, and batches that are done when a test says so.
type batchProvider struct {
	mu      sync.Mutex
	batches map[string]string // as they are shown, by id; guarded by mu
}

func (p *batchProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, _, _ := strings.Cut(strings.TrimPrefix(path, "/batches/"), "/")
	switch {
	case path == "/files":
		_, _ = w.Write([]byte(`{"id":"file-1","object":"file","bytes":1000}`))
		return
	case path == "/batches":
		id = fmt.Sprintf("batch_%d", len(p.batches)+1)
		p.batches[id] = fmt.Sprintf(`{"id":%q,"object":"batch","status":"in_progress"}`, id)
	case strings.HasSuffix(path, "/cancel"):
		p.batches[id] = fmt.Sprintf(`{"id":%q,"object":"batch","status":"cancelled"}`, id)
	}
	_, _ = w.Write([]byte(p.batches[id]))
}

// finish lets a batch be done, with a usage, and what else it is to show.
func (p *batchProvider) finish(id string, input, output int64, more ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches[id] = fmt.Sprintf(`{"id":%q,"object":"batch","status":"completed","usage":{"input_tokens":%d,"output_tokens":%d}%s}`, id, input, output, strings.Join(more, ""))
}

func (p *batchProvider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.batches)
}

// The batches of a test may take 1000 tokens each by their bounds, and some more by their prompts.
const (
	batchCalls  = 10
	batchAnswer = 100
	batchWorth  = batchCalls * (batchAnswer + 5)
)

// batchStack is a gateway in front of a provider, and a file of which batches can be made. The budget
// has room for ten, and the team's is larger.
func batchStack(t *testing.T, p *batchProvider, store *objects.Store, per tenants.Unit, limit int64, perCall ...int64) *sockets.Stack {
	t.Helper()
	w := sockets.World{Upstream: p, Config: func(c *tenants.Config) {
		c.Prices = []tenants.ModelPrice{{Model: "gpt-4o", Price: tenants.Price{Input: 1_000_000, CachedInput: 1_000_000, Output: 1_000_000}}}
		for _, micros := range perCall {
			c.Prices[0].Price.Call = micros
		}
	}}
	w.Objects = store
	w.Tenants = []tenants.Tenant{
		sockets.Tenant("acme", func(t *tenants.Tenant) {
			sockets.Granted(t)
			t.DefaultPool = "main"
			t.Models = []string{"gpt-4o"}
			t.Budgets = []tenants.Budget{{Unit: per, Limit: limit, Per: tenants.Month}}
			byMembers(t)
		}),
		sockets.Tenant("acme/search", func(t *tenants.Tenant) {
			sockets.Granted(t)
			t.DefaultPool = "main"
			t.Models = []string{"gpt-4o"}
		}),
	}
	return sockets.New(t, w)
}

// upload sends the file of calls.
func uploadCalls(s *sockets.Stack, tenant string) (id string) {
	s.T.Helper()
	line := fmt.Sprintf(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"max_tokens":%d}}`, batchAnswer)
	status, text := s.SendAs(tenant, http.MethodPost, "/v1/files", formType, harness.BatchForm(strings.Repeat(line+"\n", batchCalls)))
	if status != http.StatusOK {
		s.T.Fatal(status, text)
	}
	return gjson.Get(text, "id").Str
}

func createBatch(s *sockets.Stack, tenant, file string) (status int, text string) {
	s.T.Helper()
	body := testkit.Must(json.Marshal(map[string]string{"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}))(s.T)
	return s.SendAs(tenant, http.MethodPost, "/v1/batches", "application/json", string(body))
}

// createUntilRefused creates batches one after the other, and returns how many there were.
func createUntilRefused(s *sockets.Stack, tenant, file string) (made int) {
	s.T.Helper()
	for range 50 {
		switch status, text := createBatch(s, tenant, file); status {
		case http.StatusOK:
			made++
		case http.StatusTooManyRequests:
			return made
		default:
			s.T.Fatal(status, text)
		}
	}
	return made
}

// A batch holds in budgets all that it may take until it is seen done, so that fifty at once do not pass
// a budget that is worth ten.
func TestAudit_H2_BatchesAreHeldInBudgets(t *testing.T) {
	for name, unit := range map[string]tenants.Unit{"tokens": tenants.Tokens, "usd": tenants.MicroUSD} {
		t.Run(name, func(t *testing.T) {
			p := &batchProvider{batches: map[string]string{}}
			s := batchStack(t, p, nil, unit, 10*batchWorth)
			file := uploadCalls(s, "acme/search")
			testkit.AtOnce(50, func(_ int) {
				status, text := createBatch(s, "acme/search", file)
				if status != http.StatusOK && (status != http.StatusTooManyRequests || !strings.Contains(text, "budget of tenant acme ")) {
					t.Errorf("%d %s", status, text)
				}
			})
			made := p.count()
			if made > 10 || made < 5 {
				t.Fatalf("%d batches were created in a budget for ten", made)
			}
			s.SendOK("acme/search", http.MethodPost, "/v1/batches/batch_1/cancel", "")
			if n := createUntilRefused(s, "acme", file); n != 1 { // its team's file is acme's, too
				t.Errorf("after one was cancelled, %d more were created, want 1", n)
			}
			p.finish("batch_2", 10, 10)
			p.finish("batch_3", 10, 10)
			for _, id := range []string{"batch_2", "batch_3"} {
				s.SendOK("acme", http.MethodGet, "/v1/batches/"+id, "")
			}
			if n := createUntilRefused(s, "acme/search", file); n < 1 || n > 2 {
				t.Errorf("after two took little, %d more were created, want one or two", n)
			}
		})
	}
}

// A batch that names a model by another name, which has no price, costs what the model costs that its calls asked for.
func TestBatchesNameOtherModels(t *testing.T) {
	p := &batchProvider{batches: map[string]string{}}
	s := batchStack(t, p, nil, tenants.MicroUSD, 10*batchWorth)
	file := uploadCalls(s, "acme")
	if status, text := createBatch(s, "acme", file); status != http.StatusOK {
		t.Fatal(status, text)
	}
	p.finish("batch_1", 0, 9*batchWorth, `,"model":"gpt-4o-2024-08-06"`)
	s.SendOK("acme", http.MethodGet, "/v1/batches/batch_1", "")
	if n := createUntilRefused(s, "acme", file); n > 1 {
		t.Errorf("after a batch took nine tenths of the budget, %d more were created, want 1", n)
	}
}

// Each call of a batch costs what the price says of a call: as many as the file has are held, also over a restart, and those that were answered are charged.
func TestBatchesCostByTheCall(t *testing.T) {
	for answered, want := range map[int]int{1: 1, batchCalls: 0} {
		p := &batchProvider{batches: map[string]string{}}
		dir := t.TempDir()
		store := sockets.OpenObjects(t, dir)
		const call = 100 * batchWorth
		const limit = 3*batchCalls*call + 2*call
		file := uploadCalls(batchStack(t, p, store, tenants.MicroUSD, limit, call), "acme")
		restart := func() *sockets.Stack {
			testkit.OK(t, store.Close())
			store = sockets.OpenObjects(t, dir)
			return batchStack(t, p, store, tenants.MicroUSD, limit, call)
		}
		if n := createUntilRefused(restart(), "acme", file); n != 3 {
			t.Errorf("of a budget for three batches, %d were created", n)
		}
		s := restart()
		p.finish("batch_1", 10, 10, fmt.Sprintf(`,"request_counts":{"total":%d,"completed":%d,"failed":%d}`, batchCalls, answered, batchCalls-answered))
		s.SendOK("acme", http.MethodGet, "/v1/batches/batch_1", "")
		if n := createUntilRefused(s, "acme", file); n != want {
			t.Errorf("after one of which %d calls were answered, %d more were created, want %d", answered, n, want)
		}
	}
}

// After a restart, batches that were not seen done hold again what they may take.
func TestAudit_H2_BatchesAreHeldOverRestarts(t *testing.T) {
	p := &batchProvider{batches: map[string]string{}}
	dir := t.TempDir()
	before := sockets.OpenObjects(t, dir)
	s := batchStack(t, p, before, tenants.Tokens, 10*batchWorth)
	file := uploadCalls(s, "acme")
	made := createUntilRefused(s, "acme", file)
	if made > 10 || made < 5 {
		t.Fatalf("%d batches were created in a budget for ten", made)
	}
	testkit.OK(t, before.Close())
	s = batchStack(t, p, sockets.OpenObjects(t, dir), tenants.Tokens, 10*batchWorth)
	if n := createUntilRefused(s, "acme", file); n != 0 {
		t.Errorf("after a restart %d more were created", n)
	}
	memberUsed(s, "acme")
	p.finish("batch_1", 10, 10)
	s.SendOK("acme", http.MethodGet, "/v1/batches/batch_1", "")
	if n := createUntilRefused(s, "acme", file); n != 1 {
		t.Errorf("when a batch from before the restart was done, %d more were created, want 1", n)
	}
}

// The calls of a batch have the bounds that they would have if they came one by one.
func TestAudit_M6_BatchLines(t *testing.T) {
	s := newGrantedStack(t)
	line := func(url, body string) string {
		return `{"custom_id":"1","method":"POST","url":"/v1` + url + `","body":{"model":"gpt-4o"` + body + `}}`
	}
	send := func(lines ...string) (int, string) {
		return s.SendAs("acme", http.MethodPost, "/v1/files", formType, harness.BatchForm(lines...))
	}
	for _, tt := range []struct {
		url, body, want string
	}{
		{"/chat/completions", `,"max_tokens":5000,"n":100`, `{"model":"gpt-4o","max_tokens":100,"n":100}`},
		{"/chat/completions", `,"max_completion_tokens":7`, `{"model":"gpt-4o","max_completion_tokens":7}`},
		{"/chat/completions", ``, `{"max_completion_tokens":100,"model":"gpt-4o"}`},
		{"/responses", `,"max_output_tokens":null`, `{"model":"gpt-4o","max_output_tokens":100}`},
		{"/embeddings", `,"input":"x"`, `{"model":"gpt-4o","input":"x"}`},
		{"/chat/completions", `,"service_tier":"priority","n":1`, `{"max_completion_tokens":100,"model":"gpt-4o","service_tier":"default","n":1}`},
		{"/messages", `,"speed":"fast","service_tier":"flex","max_tokens":9`, `{"model":"gpt-4o","speed":"standard","service_tier":"flex","max_tokens":9}`},
		{"/embeddings", `,"service_tier":"priority","input":"x"`, `{"model":"gpt-4o","input":"x"}`},
	} {
		// Beside another line, and with blanks around it, which stay.
		status, text := send(line("/embeddings", ""), "", " \t"+line(tt.url, tt.body)+" \r", line("/completions", ""))
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.body, status, text)
			continue
		}
		_, kept := s.SendAs("acme", http.MethodGet, "/v1/files/"+gjson.Get(text, "id").Str+"/content", "", "")
		lines := strings.Split(kept, "\n")
		if want := " \t" + strings.Replace(line(tt.url, tt.body), `{"model":"gpt-4o"`+tt.body+`}`, tt.want, 1) + " \r"; len(lines) != 4 || lines[2] != want {
			t.Errorf("the upstream keeps\n%q, want as its third line\n%q", kept, want)
		}
		if want := line("/completions", ""); len(lines) == 4 && lines[3] != strings.Replace(want, `"body":{`, `"body":{"max_tokens":100,`, 1) {
			t.Errorf("the last line is %q", lines[3])
		}
	}
	for _, bad := range []string{
		line("/chat/completions", `,"n":5000`),
		line("/chat/completions", `,"max_tokens":1,"max_tokens":5000`),
		line("/chat/completions", `,"Max_Tokens":5000`),
		line("/chat/completions", `,"extra_body":{"max_tokens":5000}`),
		line("/chat/completions", `,"tools":[{"type":"image_generation"}]`),
		strings.Replace(line("/chat/completions", ``), `"url":"/v1/chat/completions",`, "", 1),
		strings.Replace(line("/chat/completions", ``), `"body"`, `"body":{"model":"gpt-4o"},"body"`, 1),
		strings.Replace(line("/chat/completions", ``), `"body"`, `"Body"`, 1),
		strings.Replace(line("/chat/completions", ``), `"url"`, `"url":"/v1/embeddings","url"`, 1),
		`[` + line("/chat/completions", ``) + `]`,
	} {
		before := s.Seen.Count()
		if status, text := send(line("/embeddings", ""), bad); status != http.StatusBadRequest || !strings.Contains(text, "Line 2: ") || s.Seen.Count() != before {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}

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
