package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// What a body refers to must be the caller's own, wherever it stands.
func TestReferencesOfOthersAreNotFound(t *testing.T) {
	var model *mock.Server
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), MockInto: &model, Upstream: speaking(&model)})
	o := makeAll(s, "acme")
	response := testkit.Must(ai(s, "acme").Responses.Get(t.Context(), o["response"], responses.ResponseGetParams{}))(t)
	o["item"] = response.Output[0].ID
	o["sound"] = speak(s, "acme", false)
	o["streamed"] = speak(s, "acme", true)
	for _, tt := range []struct{ path, body, param string }{
		{"/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"{file}"}}]}]}`, "file_id"},
		{"/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"file","file":{"file\u005fid":"{file}"}}]}]}`, "file_id"},
		{"/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":[{"type":"input_file","file_id":"{file}"}]}]}`, "file_id"},
		{"/v1/responses", `{"model":"gpt-4o","input":"hi","previous_response_id":"{response}"}`, "previous_response_id"},
		{"/v1/responses", `{"model":"gpt-4o","input":[{"type":"item_reference","id":"{item}"}]}`, "id"},
		{"/v1/responses/compact", `{"model":"gpt-4o","input":[{"type":"item_reference","id":"{item}"}]}`, "id"},
		{"/v1/responses/input_tokens", `{"model":"gpt-4o","input":[{"type":"item_reference","id":"{item}"}],"tools":[]}`, "id"},
		{"/v1/responses", `{"model":"gpt-4o","input":"hi","tools":[{"type":"file_search","vector_store_ids":["{vector_store}"]}]}`, "vector_store_ids"},
		{"/v1/responses", `{"model":"gpt-4o","input":"hi","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["{file}"]}}]}`, "file_ids"},
		{"/v1/responses", `{"model":"gpt-4o","input":[{"id":"{item}"}]}`, "id"},
		{"/v1/responses", `{"model":"gpt-4o","input":[{"id":"{item}","type":null}]}`, "id"},
		{"/v1/responses", `{"model":"gpt-4o","input":[{"id":"{item}","type":"item_reference","encrypted_content":"x"}]}`, "id"},
		{"/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"assistant","audio":{"id":"{sound}"}}]}`, "id"},
		{"/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"assistant","audio":{"id":"{streamed}"}}]}`, "id"},
		{"/v1/messages", `{"model":"gpt-4o","max_tokens":5,"container":"container_1","messages":[]}`, ""},
		{"/v1/messages", `{"model":"gpt-4o","max_tokens":5,"container":{"id":"container_1","skills":[]},"messages":[]}`, ""},
		{"/v1/messages", `{"model":"gpt-4o","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"{file}"}}]}]}`, ""},
	} {
		body := o.fill(tt.body)
		status, text := s.SendAs("other", http.MethodPost, tt.path, "application/json", body)
		if status != http.StatusNotFound || tt.param != "" && !strings.Contains(text, `"param":"`+tt.param+`"`) {
			t.Errorf("%s as a stranger: %d %s, want a 404 for %s", body, status, text, tt.param)
		}
		if tt.path == "/v1/messages" { // which the model server does not have
			continue
		}
		s.SendOK("acme", http.MethodPost, tt.path, body)
	}
	for path, body := range map[string]string{ // data of tools only looks like references
		"/v1/chat/completions": `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"default":{"Container":"app","file_id":"{file}"}}}}]}`,
		"/v1/responses":        `{"model":"gpt-4o","input":[{"type":"tool_search_call","arguments":{"file_id":"{file}","type":"item_reference","id":"{item}"}}]}`,
	} {
		s.SendOK("other", http.MethodPost, path, o.fill(body))
	}
	status, text := s.SendAs("acme", http.MethodPost, "/v1/responses", "application/json", `{"model":"gpt-4o","input":"hi","conversation":"conv_1"}`)
	if status != http.StatusBadRequest || !strings.Contains(text, `"param":"conversation"`) {
		t.Errorf("a conversation: %d %s", status, text)
	}
}

// speaking answers chat that asks for sound with some, for which the model server is no
// good.
func speaking(model **mock.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		asked := gjson.ParseBytes(body)
		switch {
		case !asked.Get("modalities").Exists():
			(*model).ServeHTTP(w, r)
		case asked.Get("stream").Bool():
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"audio":{"id":"audio_2","data":"x"}}}]}`+"\n\ndata: [DONE]\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"message":{"audio":{"id":"audio_1","data":"x"}}}]}`)
		}
	}
}

// speak asks for sound, and returns its id.
func speak(s *sockets.Stack, tenant string, stream bool) string {
	s.T.Helper()
	status, text := s.SendAs(tenant, "POST", "/v1/chat/completions", "application/json",
		fmt.Sprintf(`{"model":"gpt-4o","modalities":["text","audio"],"audio":{"voice":"alloy"},"stream":%t,"messages":[]}`, stream))
	_, id, ok := strings.Cut(text, `"audio":{"id":"`)
	if status != http.StatusOK || !ok {
		s.T.Fatalf("%d %s", status, text)
	}
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// What was tuned for one tenant serves that one, unless a policy says its name.
func TestTunedModelsServeTheirOwners(t *testing.T) {
	const tuned = "ft:gpt-4o:mock::ftjob-00000000000000000006"
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{
		sockets.Tenant("acme", sockets.Granted), sockets.Tenant("acme/search", sockets.Granted), sockets.Tenant("other", sockets.Granted),
		sockets.Tenant("friend", func(t *tenants.Tenant) { t.Models = []string{tuned} }),
	}})
	o := makeAll(s, "acme/search")
	if job, err := ai(s, "acme/search").FineTuning.Jobs.Get(t.Context(), o["job"]); err != nil || job.FineTunedModel != tuned {
		t.Fatalf("%s is tuned, %v; this test knows %s", job.FineTunedModel, err, tuned)
	}
	chat := `{"model":"` + tuned + `","messages":[{"role":"user","content":"hi"}]}`
	for tenant, want := range map[string]int{"acme/search": 200, "acme": 200, "friend": 200, "other": 404} {
		if status, text := s.SendAs(tenant, "POST", "/v1/chat/completions", "application/json", chat); status != want {
			t.Errorf("%s: %d %s, want %d", tenant, status, text, want)
		}
	}
	mine := makeAll(s, "other")
	if status, text := s.SendAs("other", "POST", "/v1/fine_tuning/jobs", "application/json", `{"model":"`+tuned+`","training_file":"`+mine["file"]+`"}`); status != 404 {
		t.Errorf("another one is tuned from it: %d %s", status, text)
	}
	if status, text := s.SendAs("other", "POST", "/v1/fine_tuning/jobs", "application/json",
		`{"model":"gpt-4o","training_file":"`+mine["file"]+`","integrations":[{"type":"wandb","wandb":{"project":"theirs"}}]}`); status != 400 {
		t.Errorf("a job that reports by the account's credentials: %d %s", status, text)
	}
}

// What is made after its client went is recorded all the same: it is there, and costs.
func TestWhatIsMadeForWhoWentIsRecorded(t *testing.T) {
	var model *mock.Server
	made := make(chan struct{})
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), MockInto: &model, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			model.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		model.ServeHTTP(answer, r)
		close(made)
		select {
		case <-r.Context().Done(): // the gateway has given up
		case <-time.After(300 * time.Millisecond):
			_, _ = w.Write(answer.Body.Bytes())
		}
	})})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := s.Client.Do(s.Request(http.MethodPost, "/v1/vector_stores", `{}`).WithContext(ctx)); err == nil {
			resp.Body.Close()
		}
	}()
	<-made
	leave()
	<-ended
	s.WaitIdle()
	if _, text := s.SendAs("acme", "GET", "/v1/vector_stores", "", ""); !strings.Contains(text, `"vs_`) {
		t.Errorf("the store is at the upstream, and its owner sees %s", text)
	}
}

// A streamed response is known by the time its id is, and forgotten when it is deleted.
func TestStreamedResponsesAreOwned(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams()})
	acme := ai(s, "acme/search")
	ctx := t.Context()
	input := responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Say something.")}
	stream := acme.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "gpt-4o", Input: input})
	defer stream.Close()
	id := ""
	item := ""
	for stream.Next() {
		switch ev := stream.Current().AsAny().(type) {
		case responses.ResponseCreatedEvent:
			id = ev.Response.ID
		case responses.ResponseOutputItemAddedEvent:
			item = ev.Item.ID
			// In mid-stream it is known already.
			if status, body := s.SendAs("acme/search", "POST", "/v1/responses", "application/json",
				`{"model":"gpt-4o","input":[{"type":"item_reference","id":"`+item+`"}],"previous_response_id":"`+id+`"}`); status != 200 {
				t.Errorf("in mid-stream: %d %s", status, body)
			}
		}
	}
	if stream.Err() != nil || id == "" || item == "" {
		t.Fatal(id, item, stream.Err())
	}
	if _, err := ai(s, "acme/batch").Responses.Get(ctx, id, responses.ResponseGetParams{}); err == nil {
		t.Error("another team sees the response")
	}
	got, err := ai(s, "acme").Responses.Get(ctx, id, responses.ResponseGetParams{})
	if err != nil || got.ID != id {
		t.Fatalf("the tenant above sees %q, %v", got.ID, err)
	}
	if _, err := acme.Responses.InputItems.List(ctx, id, responses.InputItemListParams{}); err != nil {
		t.Error(err)
	}
	before := s.Charged("output")
	testkit.Must(acme.Responses.Get(ctx, id, responses.ResponseGetParams{}))(t)
	if s.WaitIdle(); s.Charged("output") != before {
		t.Error("to look at a response is charged as if it were made again")
	}
	testkit.OK(t, acme.Responses.Delete(ctx, id))
	if _, err := acme.Responses.Get(ctx, id, responses.ResponseGetParams{}); err == nil {
		t.Error("a deleted response is still there")
	}
}

// A response that is broken off before its usage adds to those that continue it what is believed of it then.
//
// Seen to fail with: what it was held at.
func TestResponsesThatBrokeOffAreSizedAsCharged(t *testing.T) {
	store := sockets.OpenObjects(t, t.TempDir())
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Objects: store})
	acme := ai(s, "acme")
	numbers := responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(strings.Repeat("12345 67890 ", 3000))}
	call := responses.ResponseNewParams{Model: "gpt-4o", Input: numbers, MaxOutputTokens: param.NewOpt(int64(400))}
	testkit.Must(acme.Responses.New(t.Context(), call))(t) // teaches
	s.WaitIdle()
	before := s.Charged("input")
	ctx, leave := context.WithCancel(t.Context())
	stream := acme.Responses.NewStreaming(ctx, call)
	id := ""
	for id == "" && stream.Next() {
		id = stream.Current().Response.ID
	}
	leave()
	stream.Close()
	s.WaitIdle()
	charged := s.Charged("input") - before
	e, _ := store.Owner(objects.Key{Upstream: "up", ID: id})
	if least := charged + 400; e.Size < least || charged == 0 {
		t.Errorf("response %q was charged %d for its prompt, and is of size %d; want %d", id, charged, e.Size, least)
	}
}

// What cannot be recorded is not made: the caller gets a 503, and the upstream's is
// removed again.
func TestObjectsThatCannotBeKeptAreNotMade(t *testing.T) {
	store := sockets.OpenObjects(t, t.TempDir())
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Objects: store})
	o := makeAll(s, "acme")
	count := func(path string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		s.Mock.ServeHTTP(w, r)
		return strings.Count(w.Body.String(), `"id"`)
	}
	s.SendAs("acme", "GET", "/v1"+o.fill("/batches/{batch}"), "", "") // what a batch makes is there
	files := count("/v1/files")
	stores := count("/v1/vector_stores")
	store.Close()
	for _, route := range []string{"POST /files", "POST /vector_stores", "POST /batches", "POST /fine_tuning/jobs", "POST /uploads", "POST /vector_stores/{vector_store}/file_batches"} {
		tt := objectCases[route]
		_, path, _ := strings.Cut(route, " ")
		status, body := s.SendAs("acme", "POST", "/v1"+o.fill(path), tt.contentType, o.fill(tt.body))
		if status != http.StatusServiceUnavailable || harness.ErrorCode(body) != "store_unavailable" {
			t.Errorf("%s: %d %s, want a 503", route, status, body)
		}
	}
	if f, v := count("/v1/files"), count("/v1/vector_stores"); f != files || v != stores {
		t.Errorf("%d files and %d vector stores are at the upstream, want %d and %d", f, v, files, stores)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/batches", nil)
	w := httptest.NewRecorder()
	s.Mock.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"cancelled"`) {
		t.Errorf("the batch that nobody owns goes on: %s", w.Body)
	}
	status, body := s.SendAs("acme", "POST", "/v1/responses", "application/json", `{"model":"gpt-4o","input":"hi"}`)
	if status != http.StatusOK { // what is lost of a response is only hidden
		t.Errorf("a response: %d %s", status, body)
	}
}

// Content streams through: the first part is there before the last is sent.
func TestFileContentIsNotHeld(t *testing.T) {
	gate := make(chan struct{})
	var model *mock.Server
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/content") {
			model.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
		_ = http.NewResponseController(w).Flush()
		<-gate
		_, _ = w.Write([]byte("b"))
	}), MockInto: &model})
	f := testkit.Must(ai(s, "acme").Files.New(t.Context(), openai.FileNewParams{File: openai.File(strings.NewReader("x"), "x.txt", "text/plain"), Purpose: openai.FilePurposeUserData}))(t)
	resp := testkit.Must(ai(s, "acme").Files.Content(t.Context(), f.ID))(t)
	defer resp.Body.Close()
	testkit.Must(io.ReadFull(resp.Body, make([]byte, 1000)))(t)
	close(gate)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "b" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// Each call is a request of the tenant's limits, and no more than that.
func TestObjectCallsAreGoverned(t *testing.T) {
	one := sockets.Tenant("acme", sockets.Granted)
	one.RPM = 2
	s := sockets.New(t, sockets.World{Tenants: append(sockets.TenantsWithTeams()[3:], one)})
	for i, want := range []int{200, 200, 429} {
		if status, body := s.SendAs("acme", "GET", []string{"/v1/files", "/v1/batches", "/v1/vector_stores"}[i], "", ""); status != want {
			t.Errorf("call %d: %d %s, want %d", i+1, status, body, want)
		}
	}
	s.WaitIdle()
	if used := s.Used("acme"); used["requests"] != 2 || used["tokens"] != 0 {
		t.Errorf("two lists count as %v", used)
	}
}

// The calls of a batch are checked when their file comes, and a batch is made of nothing
// else.
func TestCallsOfABatchAreChecked(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", sockets.Granted), sockets.Tenant("other", func(t *tenants.Tenant) {
		sockets.Granted(t)
		t.Models = []string{"gpt-4o"}
	})}})
	theirs := makeAll(s, "acme")
	mine := makeAll(s, "other")
	send := func(purpose, content string) (int, string) {
		return s.SendAs("other", "POST", "/v1/files", formType, harness.CRLF("--b\nContent-Disposition: form-data; name=\"purpose\"\n\n"+purpose+"\n"+
			"--b\nContent-Disposition: form-data; name=\"file\"; filename=\"calls.jsonl\"\n\n"+content+"\n--b--\n"))
	}
	for _, tt := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"model":"gpt-4o","messages":[]}`, 200, ""},
		{`{"model":"gpt-4o","input":[{"content":[{"file_id":"` + mine["file"] + `"}]}]}`, 200, ""},
		{`{"model":"gpt-5","messages":[]}`, 403, "Line 2: "},
		{`{"Model":"gpt-5","model":"gpt-4o"}`, 403, "Line 2: "},
		{`{"model":"gpt-4o","input":[{"content":[{"file_id":"` + theirs["file"] + `"}]}]}`, 404, "Line 2: "},
		{`{"model":"gpt-4o","previous_response_id":"` + theirs["response"] + `"}`, 404, "Line 2: "},
		{`{"model":"gpt-4o","conversation":"conv_1"}`, 400, "Line 2: "},
		{`{"model":`, 400, "Line 2: "},
		{`{},"method":"GET"`, 400, "Line 2: "},
		{`{},"url":"/v1/files/` + theirs["file"] + `/content"`, 400, "Line 2: "},
		{`{},"url":"/v1/chat/completions","URL":"/v1/organization/users"`, 400, "Line 2: "},
		{"\r{\"body\":{\"model\":\"gpt-5\"}}\r", 400, "Line 2: "},
	} {
		if status, text := send("batch", oneCall+`{"custom_id":"2","body":`+tt.body+`}`); status != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %s, want %d %q", tt.body, status, text, tt.status, tt.says)
		}
	}
	if status, text := send("batch", strings.Repeat("{}\n", 100_001)); status != 400 || !strings.Contains(text, "100000 lines") {
		t.Errorf("a file of very many lines: %d %s", status, text)
	}
	if status, text := s.SendAs("other", "POST", "/v1/batches", "application/json", mine.fill(`{"input_file_id":"{calls}","endpoint":"/v1/files","completion_window":"24h"}`)); status != 400 {
		t.Errorf("a batch that calls files: %d %s", status, text)
	}
	// A file that was not checked is none for a batch.
	if status, text := s.SendAs("other", "POST", "/v1/batches", "application/json", mine.fill(`{"input_file_id":"{file}","endpoint":"/v1/chat/completions","completion_window":"24h"}`)); status != 400 {
		t.Errorf("a batch of a file with another purpose: %d %s", status, text)
	}
	if status, text := s.SendAs("other", "POST", "/v1/uploads", "application/json", `{"purpose":"batch","bytes":1,"filename":"x","mime_type":"y"}`); status != 400 {
		t.Errorf("a file of calls in parts: %d %s", status, text)
	}
}

// Of responses that are not stored nothing is recorded but what is sent back by its id.
func TestUnstoredResponsesAreNotRecorded(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","output":[{"type":"message","id":"msg_1"},`+
			`{"type":"image_generation_call","id":"ig_1"},{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1"}]}`)
	})})
	send := func(more string) int {
		status, _ := s.SendAs("acme", "POST", "/v1/responses", "application/json", `{"model":"gpt-4o","store":false`+more+`}`)
		return status
	}
	if status := send(`,"input":"hi"`); status != http.StatusOK {
		t.Fatal(status)
	}
	for more, want := range map[string]int{
		`,"input":"hi","previous_response_id":"resp_1"`:                            404,
		`,"input":[{"type":"item_reference","id":"msg_1"}]`:                        404,
		`,"input":[{"type":"image_generation_call","id":"ig_1","result":"x"}]`:     200,
		`,"input":"hi","tools":[{"type":"code_interpreter","container":"cntr_1"}]`: 200,
	} {
		if status := send(more); status != want {
			t.Errorf("%s: %d, want %d", more, status, want)
		}
	}
}

// Two upstreams may give out the same id: it is two objects, and each call goes to where
// its own is.
func TestTheSameIDAtTwoUpstreams(t *testing.T) {
	second := testkit.Must(mock.New(mock.Config{}))(t)
	there := sockets.Serve(t, second)
	s := sockets.New(t, sockets.World{
		Tenants: []tenants.Tenant{
			sockets.Tenant("acme", func(t *tenants.Tenant) { sockets.Granted(t); t.DefaultPool = "main" }),
			sockets.Tenant("other", func(t *tenants.Tenant) { sockets.Granted(t); t.DefaultPool = "main" }),
		},
		Config: func(c *tenants.Config) {
			c.Upstreams = append(c.Upstreams, tenants.Upstream{Name: "second", BaseURL: there.URL + "/v1"})
			c.Pools[0].Upstreams = []tenants.PoolUpstream{{Name: "up"}}
			p := tenants.DefaultPool("local", "local")
			p.RPM = 1000
			p.Upstreams = []tenants.PoolUpstream{{Name: "second"}}
			c.Pools = append(c.Pools, p)
		},
	})
	ask := func(tenant, model string) string {
		r := testkit.Must(ai(s, tenant).Responses.New(t.Context(), responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("hi")}}))(t)
		return r.ID
	}
	id := ask("acme", "local")
	if other := ask("other", "gpt-4o"); other != id {
		t.Fatalf("the ids %s and %s differ: this test can see nothing", id, other)
	}
	for tenant, model := range map[string]string{"acme": "local", "other": "gpt-4o"} {
		r, err := ai(s, tenant).Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		if err != nil || r.Model != model {
			t.Errorf("%s sees the response of %q, %v; want that of %s", tenant, r.Model, err, model)
		}
	}
	// As a reference it must be where the call goes.
	if status, body := s.SendAs("acme", "POST", "/v1/responses", "application/json", `{"model":"gpt-4o","input":"hi","previous_response_id":"`+id+`"}`); status != http.StatusNotFound {
		t.Errorf("acme refers to other's response: %d %s", status, body)
	}
}

// A tool may not use a model that its caller may not.
func TestToolsUseModelsOfTheirCaller(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{
		sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o", "gpt-image-1"} }),
		sockets.Tenant("other", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} }),
	}})
	for _, body := range []string{
		`{"model":"gpt-4o","input":"hi","tools":[{"type":"image_generation","model":"gpt-image-1"}]}`,
		`{"model":"gpt-4o","input":"hi","tools":[{"type":"image\u005fgeneration","model":"gpt-image-1"}]}`,
		`{"model":"gpt-4o","input":[{"type":"image_generation_call","Model":"gpt-image-1","result":"x"}]}`,
	} {
		status, text := s.SendAs("other", http.MethodPost, "/v1/responses", "application/json", body)
		if status != http.StatusForbidden || !strings.Contains(text, "model_not_allowed") {
			t.Errorf("%s by who may not: %d %s", body, status, text)
		}
		s.SendOK("acme", http.MethodPost, "/v1/responses", body)
	}
	body := `{"model":"gpt-4o","input":"hi","tools":[{"type":"image_generation","model":"gpt-4o"}],"metadata":{"model":"x"}}`
	s.SendOK("other", http.MethodPost, "/v1/responses", body)
}
