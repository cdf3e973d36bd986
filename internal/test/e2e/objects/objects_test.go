// Package objects tests the ownership of upstream objects, and the charges of batches and of
// responses in the background.
package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// ai is OpenAI's SDK as a tenant.
func ai(s *sockets.Stack, tenant string) *openai.Client {
	c := openai.NewClient(option.WithBaseURL(s.Data.URL+"/v1"), option.WithAPIKey(sockets.Key(tenant)), option.WithHTTPClient(s.Client), option.WithMaxRetries(0))
	return &c
}

const oneCall = `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"Say something."}]}}` + "\n"

// owned are objects of each kind that one tenant made, by their place in a path.
type owned map[string]string

func makeAll(s *sockets.Stack, tenant string) owned {
	s.T.Helper()
	c := ai(s, tenant)
	ctx := s.T.Context()
	o := owned{}
	keep := func(kind, id string, err error) {
		s.T.Helper()
		if err != nil || id == "" {
			s.T.Fatalf("%s makes a %s: id %q, %v", tenant, kind, id, err)
		}
		o[kind] = id
	}
	file, err := c.Files.New(ctx, openai.FileNewParams{File: openai.File(strings.NewReader("a fact"), "fact.txt", "text/plain"), Purpose: openai.FilePurposeUserData})
	keep("file", file.ID, err)
	upload, err := c.Uploads.New(ctx, openai.UploadNewParams{Bytes: 3, Filename: "x.txt", MimeType: "text/plain", Purpose: openai.FilePurposeUserData})
	keep("upload", upload.ID, err)
	part, err := c.Uploads.Parts.New(ctx, upload.ID, openai.UploadPartNewParams{Data: strings.NewReader("abc")})
	keep("part", part.ID, err)
	calls, err := c.Files.New(ctx, openai.FileNewParams{File: openai.File(strings.NewReader(oneCall), "calls.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch})
	keep("calls", calls.ID, err)
	batch, err := c.Batches.New(ctx, openai.BatchNewParams{InputFileID: calls.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h})
	keep("batch", batch.ID, err)
	job, err := c.FineTuning.Jobs.New(ctx, openai.FineTuningJobNewParams{Model: "gpt-4o", TrainingFile: file.ID})
	keep("job", job.ID, err)
	store, err := c.VectorStores.New(ctx, openai.VectorStoreNewParams{FileIDs: []string{file.ID}})
	keep("vector_store", store.ID, err)
	fileBatch, err := c.VectorStores.FileBatches.New(ctx, store.ID, openai.VectorStoreFileBatchNewParams{FileIDs: []string{file.ID}})
	keep("file_batch", fileBatch.ID, err)
	response, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "gpt-4o", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Say something.")}})
	keep("response", response.ID, err)
	return o
}

// fill puts ids into the places of a text.
func (o owned) fill(text string) string {
	for kind, id := range o {
		text = strings.ReplaceAll(text, "{"+kind+"}", id)
	}
	return text
}

const formType = "multipart/form-data; boundary=b"

// objectCase is what to send to a route; places are filled with a tenant's ids.
type objectCase struct{ body, contentType string }

// objectCases has a case for each route to objects. The test fails when one is missing.
var objectCases = map[string]objectCase{
	"GET /responses/{response}":             {},
	"DELETE /responses/{response}":          {},
	"POST /responses/{response}/cancel":     {},
	"GET /responses/{response}/input_items": {},

	"POST /files": {contentType: formType, body: harness.CRLF("--b\nContent-Disposition: form-data; name=\"purpose\"\n\nuser_data\n" +
		"--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\n\nhello\n--b--\n")},
	"GET /files":                {},
	"GET /files/{file}":         {},
	"DELETE /files/{file}":      {},
	"GET /files/{file}/content": {},
	"POST /uploads":             {body: `{"bytes":3,"filename":"a.txt","mime_type":"text/plain","purpose":"user_data"}`},
	"POST /uploads/{upload}/parts": {
		contentType: formType,
		body:        harness.CRLF("--b\nContent-Disposition: form-data; name=\"data\"; filename=\"blob\"\n\nabc\n--b--\n"),
	},
	"POST /uploads/{upload}/complete": {body: `{"part_ids":["{part}"]}`},
	"POST /uploads/{upload}/cancel":   {},

	"POST /batches":                {body: `{"input_file_id":"{calls}","endpoint":"/v1/chat/completions","completion_window":"24h"}`},
	"GET /batches":                 {},
	"GET /batches/{batch}":         {},
	"POST /batches/{batch}/cancel": {},

	"POST /fine_tuning/jobs":                  {body: `{"model":"gpt-4o","training_file":"{file}"}`},
	"GET /fine_tuning/jobs":                   {},
	"GET /fine_tuning/jobs/{job}":             {},
	"POST /fine_tuning/jobs/{job}/cancel":     {},
	"POST /fine_tuning/jobs/{job}/pause":      {},
	"POST /fine_tuning/jobs/{job}/resume":     {},
	"GET /fine_tuning/jobs/{job}/events":      {},
	"GET /fine_tuning/jobs/{job}/checkpoints": {},

	"POST /vector_stores":                                                 {body: `{"file_ids":["{file}"]}`},
	"GET /vector_stores":                                                  {},
	"GET /vector_stores/{vector_store}":                                   {},
	"POST /vector_stores/{vector_store}":                                  {body: `{"name":"n"}`},
	"DELETE /vector_stores/{vector_store}":                                {},
	"POST /vector_stores/{vector_store}/search":                           {body: `{"query":"fact"}`},
	"POST /vector_stores/{vector_store}/files":                            {body: `{"file_id":"{file}"}`},
	"GET /vector_stores/{vector_store}/files":                             {},
	"GET /vector_stores/{vector_store}/files/{file}":                      {},
	"POST /vector_stores/{vector_store}/files/{file}":                     {body: `{"attributes":{"file_id":"mine to name"}}`},
	"DELETE /vector_stores/{vector_store}/files/{file}":                   {},
	"GET /vector_stores/{vector_store}/files/{file}/content":              {},
	"POST /vector_stores/{vector_store}/file_batches":                     {body: `{"file_ids":["{file}"]}`},
	"GET /vector_stores/{vector_store}/file_batches/{file_batch}":         {},
	"POST /vector_stores/{vector_store}/file_batches/{file_batch}/cancel": {},
	"GET /vector_stores/{vector_store}/file_batches/{file_batch}/files":   {},

	"GET /realtime": {}, // see realtime_test.go
}

// Each route, as each tenant: what one team made is seen by it and by the tenant above
// it, also after a restart. For all others it is as if it had never been.
func TestObjectsAreSeenByTheirOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	store := sockets.OpenObjects(t, dir)
	first := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Objects: store})
	looked := makeAll(first, "acme/search")
	made := map[string]owned{} // by route
	for _, route := range route.ToObjects() {
		tt, ok := objectCases[route]
		if !ok {
			t.Errorf("%s has no case: who can see what through it?", route)
			continue
		}
		made[route] = looked
		if changes(route) {
			made[route] = makeAll(first, "acme/search")
		}
		t.Run(route, func(t *testing.T) { isHidden(t, first, route, tt, made[route]) })
	}
	store.Close()
	again := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams(), Objects: sockets.OpenObjects(t, dir), Upstream: first.Mock})
	for route, theirs := range made {
		t.Run(route+" after a restart", func(t *testing.T) { isShownToOwners(t, again, route, objectCases[route], theirs) })
	}
}

// send calls a route as a tenant, of objects.
func (c objectCase) send(s *sockets.Stack, tenant, prefix, route string, o owned) (int, string) {
	method, path, _ := strings.Cut(route, " ")
	return s.SendAs(tenant, method, prefix+o.fill(path), c.contentType, o.fill(c.body))
}

// names reports whether a call to a route says an object by its id.
func (c objectCase) names(route string, o owned) bool { return o.fill(route+c.body) != route+c.body }

// changes reports whether a call to a route may end an object, so that no other call finds it.
func changes(route string) bool { return !strings.HasPrefix(route, http.MethodGet) }

// isHidden has strangers call a route of what acme/search made.
func isHidden(t *testing.T, s *sockets.Stack, route string, tt objectCase, theirs owned) {
	never := owned{}
	for kind := range theirs {
		never[kind] = "no-" + kind + "-ever"
	}
	if status, body := tt.send(s, "plain", "/v1", route, theirs); status != http.StatusForbidden || harness.ErrorCode(body) != "route_not_allowed" {
		t.Errorf("who is not granted the route gets %d %s", status, body)
	}
	if route == "GET /realtime" {
		return
	}
	for _, stranger := range []string{"other", "acme/batch"} {
		status, body := tt.send(s, stranger, "/v1", route, theirs)
		if !tt.names(route, theirs) {
			for _, id := range theirs {
				if strings.Contains(body, id) {
					t.Errorf("%s gets %d %s, which shows %s of acme/search", stranger, status, body, id)
				}
			}
			continue
		}
		neverStatus, neverBody := tt.send(s, stranger, "/v1", route, never)
		if status != http.StatusNotFound || harness.ErrorCode(body) != "not_found" {
			t.Errorf("%s gets %d %s, want a 404", stranger, status, body)
		}
		if blank(body, theirs) != blank(neverBody, never) || status != neverStatus {
			t.Errorf("%s gets %s, and of what never was %s: they tell apart what is there", stranger, body, neverBody)
		}
	}
}

// isShownToOwners calls a route of what acme/search made before a restart.
func isShownToOwners(t *testing.T, s *sockets.Stack, route string, tt objectCase, theirs owned) {
	if route == "GET /realtime" {
		return
	}
	if status, body := tt.send(s, "other", "", route, theirs); tt.names(route, theirs) && status != http.StatusNotFound {
		t.Errorf("after a restart other gets %d %s, want a 404", status, body)
	}
	mine := theirs
	if changes(route) {
		mine = makeAll(s, "acme/search")
	}
	if status, body := tt.send(s, "acme", "", route, theirs); status != http.StatusOK {
		t.Errorf("the tenant above gets %d %s", status, body)
	}
	if status, body := tt.send(s, "acme/search", "/v1", route, mine); status != http.StatusOK {
		t.Errorf("who made it gets %d %s", status, body)
	}
	if strings.HasPrefix(route, http.MethodDelete) && strings.Count(route, "/") == 2 {
		if status, body := tt.send(s, "acme/search", "/v1", route, mine); status != http.StatusNotFound || harness.ErrorCode(body) != "not_found" {
			t.Errorf("what was deleted is answered with %d %s", status, body)
		}
	}
}

func blank(text string, o owned) string {
	for _, id := range o {
		text = strings.ReplaceAll(text, id, "ID")
	}
	return text
}

// What a batch or a job brings forth belongs to whom it belongs, whoever looks first.
func TestWhatObjectsBringForthBelongsToTheirOwner(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams()})
	o := makeAll(s, "acme/search")
	ctx := t.Context()
	batch, err := ai(s, "acme").Batches.Get(ctx, o["batch"]) // the tenant above looks
	if err != nil {
		t.Fatal(err)
	}
	job := testkit.Must(ai(s, "acme/search").FineTuning.Jobs.Get(ctx, o["job"]))(t)
	upload := testkit.Must(ai(s, "acme/search").Uploads.Complete(ctx, o["upload"], openai.UploadCompleteParams{PartIDs: []string{o["part"]}}))(t)
	for _, id := range []string{batch.OutputFileID, batch.ErrorFileID, job.ResultFiles[0], upload.File.ID} {
		if _, err := ai(s, "acme/search").Files.Get(ctx, id); err != nil {
			t.Errorf("its owner cannot see %s: %v", id, err)
		}
		resp, err := ai(s, "acme/search").Files.Content(ctx, id)
		if err != nil {
			t.Errorf("its owner cannot read %s: %v", id, err)
			continue
		}
		resp.Body.Close()
		for _, stranger := range []string{"acme/batch", "other"} {
			if _, err := ai(s, stranger).Files.Get(ctx, id); err == nil {
				t.Errorf("%s sees %s", stranger, id)
			}
		}
	}
}

// Lists, read to their end by the SDK's own pager, have exactly what the tenant made.
func TestListsReadToTheirEnd(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: sockets.TenantsWithTeams()})
	want := map[string][]string{}
	for i := range 30 {
		tenant := []string{"acme/search", "other", "acme/batch"}[i%3]
		f := testkit.Must(ai(s, tenant).Files.New(t.Context(), openai.FileNewParams{File: openai.File(strings.NewReader("x"), "x.txt", "text/plain"), Purpose: openai.FilePurposeUserData}))(t)
		v := testkit.Must(ai(s, tenant).VectorStores.New(t.Context(), openai.VectorStoreNewParams{}))(t)
		seenBy := []string{tenant}
		if parent, _, isTeam := strings.Cut(tenant, "/"); isTeam {
			seenBy = append(seenBy, parent)
		}
		for _, who := range seenBy { // newest first
			want[who] = append([]string{f.ID}, want[who]...)
			want["vs "+who] = append([]string{v.ID}, want["vs "+who]...)
		}
	}
	for _, tenant := range []string{"acme", "acme/search", "acme/batch", "other"} {
		var got []string
		pager := ai(s, tenant).Files.ListAutoPaging(t.Context(), openai.FileListParams{Limit: param.NewOpt[int64](3)})
		for pager.Next() {
			got = append(got, pager.Current().ID)
		}
		testkit.OK(t, pager.Err())
		if fmt.Sprint(got) != fmt.Sprint(want[tenant]) {
			t.Errorf("%s lists %v, want %v", tenant, got, want[tenant])
		}
		got = nil
		stores := ai(s, tenant).VectorStores.ListAutoPaging(t.Context(), openai.VectorStoreListParams{Limit: param.NewOpt[int64](4)})
		for stores.Next() {
			got = append(got, stores.Current().ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want["vs "+tenant]) {
			t.Errorf("%s lists vector stores %v, want %v", tenant, got, want["vs "+tenant])
		}
		// Backward, from the fifth: the second to the fourth.
		all := want["vs "+tenant]
		page := testkit.Must(ai(s, tenant).VectorStores.List(t.Context(), openai.VectorStoreListParams{Before: param.NewOpt(all[4]), Limit: param.NewOpt[int64](3)}))(t)
		if len(page.Data) != 3 || page.Data[0].ID != all[1] || page.Data[2].ID != all[3] || !page.HasMore {
			t.Errorf("%s lists before the fifth %s", tenant, page.RawJSON())
		}
	}
	status, body := s.SendAs("other", "GET", "/v1/files?after="+want["acme"][0], "", "")
	if status != http.StatusNotFound || !strings.Contains(body, `"param":"after"`) {
		t.Errorf("a stranger's cursor is answered with %d %s", status, body)
	}
}

// docs/api.md names each route with its method.
func TestObjectRoutesAreDocumented(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../../../docs/api.md"))(t)
	for _, route := range route.ToObjects() {
		method, path, _ := strings.Cut(route, " ")
		found := false
		for line := range strings.Lines(string(text)) {
			found = found || strings.Contains(line, "| `"+path+"` |") && strings.Contains(line, method)
		}
		if !found {
			t.Errorf("docs/api.md does not have %s", route)
		}
	}
}

// The upstream gets the query as the gateway read it: what could mean something else there is refused,
// and the rest is written anew.
func TestAudit_L9_QueryIsReadOnce(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })}})
	for _, query := range []string{
		"a=1;model=o3", "model=o3", "Model=o3", "mod%65l=o3", "model%00=o3", "model[]=o3", "model%5B%5D=o3", "model.x=o3", "%20model=o3",
		"model+=o3", "%zz&model=o3", "models=o3", "max_tokens=9", "\u017ftream=1", "=1",
	} {
		r := s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(``))
		r.URL.RawQuery = query
		s.Do(r).WantProblem(t, http.StatusBadRequest, "invalid_request_error")
	}
	if n := s.Seen.Count(); n != 0 {
		t.Fatalf("the upstream saw %d of the refused queries", n)
	}
	for query, want := range map[string]string{
		"":                    "",
		"beta=true":           "beta=true",
		"b=2&a=1&a=0":         "a=1&a=0&b=2",
		"a=1%26model%3Do3":    "a=1%26model%3Do3",
		"a=%3Bmodel=o3":       "a=%3Bmodel%3Do3",
		"a=x+y\u00e9&%61-b_c": "a=x+y%C3%A9&a-b_c=",
	} {
		r := s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(``))
		r.URL.RawQuery = query
		if reply := s.Do(r); reply.Status != http.StatusOK {
			t.Errorf("%s: %d %s", query, reply.Status, reply.Body)
			continue
		}
		if got := s.Seen.Last(t).Query; got != want {
			t.Errorf("of %q the upstream gets %q, want %q", query, got, want)
		}
	}
}

// breaks are the ways in which an upstream breaks an answer off.
var breaks = []string{"cut", "silent", "never", "endless"}

// brokenCalls are calls to objects that read all of an answer, or pass it on.
var brokenCalls = []string{"GET /v1/files/{file}/content", "GET /v1/files/{file}", "GET /v1/files", "POST /v1/vector_stores", "DELETE /v1/vector_stores/{vector_store}"}

// Whoever breaks a call to objects off, its slot is free again, once. Each call is of a tenant of its own, so that all of them
// run out of patience at the same time.
func TestObjectCallsEndOnce(t *testing.T) {
	caller := func(how, call int) string { return fmt.Sprintf("acme%d-%d", how, call) }
	var list []tenants.Tenant
	for how := range breaks {
		for call := range brokenCalls {
			list = append(list, sockets.Tenant(caller(how, call), func(t *tenants.Tenant) { sockets.Granted(t); t.Concurrency = 1 }))
		}
	}
	var model *mock.Server
	s := sockets.New(t, sockets.World{
		Tenants:  list,
		Config:   func(c *tenants.Config) { c.Timeouts.StreamIdle = time.Second },
		MockInto: &model,
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			how := ""
			if i := strings.Index(r.Header.Get("User-Agent"), "test-"); i >= 0 {
				how = r.Header.Get("User-Agent")[i+5:]
			}
			switch how {
			case "cut":
				w.Header().Set("Content-Length", "5000")
				_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
				panic(http.ErrAbortHandler)
			case "silent":
				_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case "never":
				panic(http.ErrAbortHandler)
			case "endless":
				for r.Context().Err() == nil {
					if _, err := w.Write(bytes.Repeat([]byte("a"), 1<<16)); err != nil {
						return
					}
				}
			default:
				model.ServeHTTP(w, r)
			}
		}),
	})
	var all sync.WaitGroup
	for i, how := range breaks {
		for j, call := range brokenCalls {
			if how == "endless" && j > 0 {
				continue // bounded by maxAnswer
			}
			tenant := caller(i, j)
			o := makeAll(s, tenant)
			all.Go(func() {
				breakOff(s, tenant, how, o.fill(call))
				if status, text := s.SendAs(tenant, "GET", "/v1/batches", "", ""); status != 200 {
					t.Errorf("after %s that is %s: %d %s", call, how, status, text)
				}
			})
		}
	}
	all.Wait()
	// A client that stops in the midst of its upload holds nothing.
	conn := testkit.Must(net.Dial("tcp", s.Data.Listener.Addr().String()))(t)
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+sockets.Key(list[0].Name)+"\r\nContent-Type: "+formType+"\r\nContent-Length: 1000\r\n\r\n--b")
	if status, text := s.SendAs(list[0].Name, "GET", "/v1/files", "", ""); status != 200 {
		t.Errorf("while somebody uploads: %d %s", status, text)
	}
}

// breakOff makes a call that its upstream breaks off, or its caller leaves, and waits until it is over.
func breakOff(s *sockets.Stack, tenant, how, call string) {
	method, path, _ := strings.Cut(call, " ")
	body := ""
	if method == http.MethodPost {
		body = "{}"
	}
	ctx, leave := context.WithTimeout(s.T.Context(), sockets.Patience)
	defer leave()
	r := s.Request(method, path, body, "User-Agent", "test-"+how, "Authorization", "Bearer "+sockets.Key(tenant)).WithContext(ctx)
	if resp, err := s.Client.Do(r); err == nil {
		if how == "endless" {
			_, _ = io.ReadFull(resp.Body, make([]byte, 1<<20))
			leave()
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	} else if ctx.Err() != nil {
		s.T.Errorf("%s that is %s has no end", call, how)
	}
	sockets.Eventually(s.T, sockets.Patience, call+" of "+tenant+" is over", func() bool {
		for _, ts := range s.Governor.State().Tenants {
			if ts.Config.Name == tenant {
				return ts.Running == 0
			}
		}
		return false
	})
}
