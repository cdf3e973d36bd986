package extproc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/llmgov/llmgov/internal/doors/envoy/extproc"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

const (
	buffered = procv3.ProcessingMode_BUFFERED
	chat     = `{"model":"gpt-4o","max_tokens":40,"stream":true,"messages":[{"role":"user","content":"hello"}]}`
	delta    = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	stopped  = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage    = `data: {"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}` + "\n\n"
	done     = "data: [DONE]\n\n"
)

// A call that the proxy's metadata describes is charged by the usage in its trailers, and no body is seen.
func TestProcess_ByMetadata(t *testing.T) {
	w := newWorld(t, func(s *setting) {
		s.pool.Headers = []tenants.Header{{Name: "X-Llm-D-Inference-Fairness-Id", Value: "{tenant}"}}
	})
	p := w.call()
	on := p.ask(described(chatInfo(40), "x-request-id", "req-1")).GetRequestHeaders().GetResponse()
	if n, _ := w.gov.Leases(); n != 1 {
		t.Fatalf("%d leases while the call is under way", n)
	}
	if got := set(on.HeaderMutation); got.Get("X-Request-Id") != "req-1" || got.Get("Accept-Encoding") != "identity" || got.Get("X-Llm-D-Inference-Fairness-Id") != "acme" {
		t.Errorf("the model server gets %v", got)
	}
	if !slices.Contains(on.HeaderMutation.RemoveHeaders, "authorization") {
		t.Errorf("the tenant's key reaches the model server; removed is %v", on.HeaderMutation.RemoveHeaders)
	}
	shown := set(p.ask(answered("200", "text/event-stream", "x-ratelimit-limit-tokens", "77")).GetResponseHeaders().GetResponse().HeaderMutation)
	for name, want := range map[string]string{"X-Ratelimit-Limit-Tokens": "594000", "X-Upstream-Ratelimit-Limit-Tokens": "77", "X-Request-Id": "req-1"} {
		if got := shown.Get(name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if p.ask(used(50, 5)).GetResponseTrailers() == nil {
		t.Error("no answer to the trailers")
	}
	p.leave()
	if got := w.settled(); got != 55 {
		t.Errorf("charged %d tokens, 55 is right", got)
	}
}

// A call whose body is buffered for us is read as at the gateway: its stream is asked for its usage, which is withheld
// from a client that did not ask.
func TestProcess_ByBody(t *testing.T) {
	w := newWorld(t, func(s *setting) { s.acme.MaxOutputTokens = 30 })
	p := w.call()
	if r := p.ask(opened("/v1/chat/completions", buffered)); r.GetRequestHeaders() == nil {
		t.Fatalf("before the body: %v", r)
	}
	on := p.ask(body(chat)).GetRequestBody().GetResponse()
	var sent struct {
		MaxTokens int                         `json:"max_tokens"`
		Options   struct{ IncludeUsage bool } `json:"stream_options"`
	}
	text := on.BodyMutation.GetBody()
	if err := json.Unmarshal(text, &sent); err != nil || sent.MaxTokens != 30 || !strings.Contains(string(text), "include_usage") {
		t.Errorf("the model server gets %s (%v)", text, err)
	}
	p.ask(answered("200", "text/event-stream"))
	var got strings.Builder
	all := delta + delta + stopped + usage + done
	for i := 0; i < len(all); i += 100 {
		end := min(i+100, len(all))
		r := p.ask(part(all[i:end], end == len(all))).GetResponseBody().GetResponse()
		got.Write(r.GetBodyMutation().GetBody())
	}
	if want := delta + delta + stopped + done; got.String() != want {
		t.Errorf("the client gets %q", got.String())
	}
	p.leave()
	if got := w.settled(); got != 11 {
		t.Errorf("charged %d tokens, 11 is right", got)
	}
}

// What a model server refuses of what was added is left out of the model's later calls, unless the call named it itself.
func TestProcess_RefusedAddition(t *testing.T) {
	w := newWorld(t, func(s *setting) { s.acme.MaxOutputTokens = 30 })
	unbound := strings.Replace(chat, `"max_tokens":`, `"x":`, 1)
	for i, c := range []struct{ sends, refuses, gets string }{
		{chat, "", "stream_options"},
		{strings.Replace(chat, `{`, `{"x":"stream_options",`, 1), "stream_options", "stream_options"},
		{strings.Replace(chat, `{`, `{"x":"stream\u005foptions",`, 1), "stream_options", "stream_options"},
		{chat, "stream_options", "stream_options"},
		{unbound, "", "max_completion_tokens"},
		{unbound, "max_completion_tokens", "max_completion_tokens"},
		{unbound, "", `{"max_tokens":30`},
	} {
		p := w.call()
		p.ask(opened("/v1/chat/completions", buffered))
		if sent := p.ask(body(c.sends)).GetRequestBody().GetResponse().GetBodyMutation().GetBody(); !strings.Contains(string(sent), c.gets) {
			t.Errorf("%s becomes %s", c.sends, sent)
		}
		said := `{"error":{"message":"Unrecognized request argument supplied: ` + c.refuses + `"}}`
		encoding := "identity"
		if i == 3 {
			said, encoding = testkit.Gzip(said), "gzip"
		}
		p.ask(answered([]string{"400", "501"}[i%2], "application/json", "content-encoding", encoding))
		p.ask(part(said, true))
		p.leave()
	}
	for key, asked := range map[string]bool{"sk-acme": false, "sk-other": true} { // another tenant has not provoked it
		p := w.call()
		p.ask(opened("/v1/chat/completions", buffered, "authorization", "Bearer "+key))
		if sent := p.ask(body(unbound)).GetRequestBody().GetResponse().GetBodyMutation().GetBody(); strings.Contains(string(sent), "stream_options") != asked {
			t.Errorf("with %s the model server gets %s", key, sent)
		}
		p.leave()
	}
}

// A tier of service that the tenant may not ask for becomes the usual one, by the word of the body's dialect.
func TestProcess_LowersTiers(t *testing.T) {
	w := newWorld(t, func(s *setting) {
		s.acme.ServiceTiers = []string{"flex"}
		s.acme.LowerTiers = true
	})
	for path, c := range map[string]struct{ asks, gets string }{
		"/v1/chat/completions": {`"service_tier":"priority"`, `{"model":"gpt-4o","service_tier":"default","max_tokens":9}`},
		"/v1/responses":        {`"service_tier":"scale"`, `{"model":"gpt-4o","service_tier":"default","max_tokens":9}`},
		"/v1/messages":         {`"service_tier":"priority","speed":"fast"`, `{"model":"gpt-4o","service_tier":"standard_only","speed":"standard","max_tokens":9}`},
		"/v1/embeddings":       {`"service_tier":"priority"`, `{"model":"gpt-4o","max_tokens":9}`},
	} {
		p := w.call()
		p.ask(opened(path, buffered))
		if sent := p.ask(body(`{"model":"gpt-4o",` + c.asks + `,"max_tokens":9}`)).GetRequestBody().GetResponse().GetBodyMutation().GetBody(); string(sent) != c.gets {
			t.Errorf("%s: the model server gets %s", path, sent)
		}
		p.leave()
	}
}

// A plain answer is passed on as it is, and charged by its usage.
func TestProcess_PlainAnswer(t *testing.T) {
	w := newWorld(t, nil)
	p := w.call()
	p.ask(opened("/v1/chat/completions", buffered))
	plain := strings.Replace(chat, `"stream":true,`, "", 1)
	if on := p.ask(body(plain)).GetRequestBody().GetResponse(); on.BodyMutation != nil {
		t.Errorf("the body was changed to %s", on.BodyMutation.GetBody())
	}
	p.ask(answered("200", "application/json"))
	for _, text := range []string{`{"choices":[],"usage":{"prompt_`, `tokens":9,"completion_tokens":3}}`} {
		if r := p.ask(part(text, strings.HasSuffix(text, "}}"))); r.GetResponseBody() == nil || r.GetResponseBody().Response.GetBodyMutation() != nil {
			t.Errorf("part %q: %v", text, r)
		}
	}
	p.leave()
	if got := w.settled(); got != 12 {
		t.Errorf("charged %d tokens, 12 is right", got)
	}
}

// A body that comes compressed, or with a byte order mark, is read as it was, and goes on as that.
func TestProcess_EncodedBody(t *testing.T) {
	plain := strings.Replace(chat, `"stream":true,`, "", 1)
	for encoding, came := range map[string]string{"gzip": testkit.Gzip(plain), "zstd": testkit.Zstd("\ufeff" + plain), "identity": "\ufeff" + plain} {
		w := newWorld(t, nil)
		p := w.call()
		p.ask(opened("/v1/chat/completions", buffered, "content-encoding", encoding))
		on := p.ask(body(came)).GetRequestBody().GetResponse()
		if got := string(on.BodyMutation.GetBody()); got != plain || !slices.Contains(on.HeaderMutation.RemoveHeaders, "content-encoding") {
			t.Errorf("%s: the model server gets %s, without the headers %v", encoding, got, on.HeaderMutation.RemoveHeaders)
		}
		p.leave()
	}
}

// A refusal is an answer in the caller's dialect, with every header that the gateway's has.
func TestProcess_Refuses(t *testing.T) {
	for _, c := range []struct {
		path, text, id string
	}{
		{"/v1/chat/completions", `"code":"rate_limit_exceeded"`, ""},
		{"/v1/messages", `"type":"rate_limit_error"`, "Request-Id"},
	} {
		w := newWorld(t, func(s *setting) { s.acme.RPM = 1 })
		info := chatInfo(40)
		open := func() *pb.ProcessingRequest {
			return withMetadata(opened(c.path, procv3.ProcessingMode_NONE, "x-request-id", "req-7"), "anywhere", info)
		}
		w.call().ask(open())
		r := w.call().ask(open()).GetImmediateResponse()
		if r.GetStatus().GetCode() != 429 || !strings.Contains(string(r.GetBody()), c.text) {
			t.Errorf("%s: %v %s", c.path, r.GetStatus(), r.GetBody())
		}
		h := set(r.GetHeaders())
		for name, want := range map[string]string{
			"X-Request-Id": "req-7", "Content-Type": "application/json", "X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", c.id: "req-7",
		} {
			if name != "" && h.Get(name) != want {
				t.Errorf("%s: %s is %q, not %q", c.path, name, h.Get(name), want)
			}
		}
		if h.Get("Retry-After") == "" || h.Get("retry-after-ms") == "" {
			t.Errorf("%s: no time to come back: %v", c.path, h)
		}
	}
}

// Whatever cannot be governed does not go on.
func TestProcess_BadInput(t *testing.T) {
	info := chatInfo(40)
	for name, c := range map[string]struct {
		open   *pb.ProcessingRequest
		body   string
		status int
		code   string
	}{
		"unknown key":         {opened("/v1/chat/completions", buffered, "authorization", "Bearer sk-wrong"), "", 401, "invalid_api_key"},
		"no such route":       {opened("/v1/organization/users", buffered), "", 404, "not_found"},
		"an object's route":   {opened("/v1/files", buffered), "", 404, "not_found"},
		"no body and no word": {opened("/v1/chat/completions", procv3.ProcessingMode_NONE), "", 500, "internal_error"},
		"a body in parts":     {opened("/v1/chat/completions", procv3.ProcessingMode_STREAMED), "", 500, "internal_error"},
		"unreadable":          {opened("/v1/chat/completions", buffered), `{"model":`, 400, "invalid_request_error"},
		"twice":               {opened("/v1/chat/completions", buffered), `{"model":"gpt-4o","model":"gpt-5"}`, 400, "invalid_request_error"},
		"another model":       {opened("/v1/chat/completions", buffered), `{"model":"gpt-5"}`, 403, "model_not_allowed"},
		"no pool":             {opened("/v1/chat/completions", buffered), `{"model":"claude"}`, 404, "model_not_found"},
		"an encoded body":     {opened("/v1/chat/completions", buffered, "content-encoding", "br"), chat, 415, "invalid_request_error"},
		"no gzip":             {opened("/v1/chat/completions", buffered, "content-encoding", "gzip"), chat, 400, "gzip"},
		"too large":           {opened("/v1/chat/completions", buffered), `{"model":"gpt-4o","x":"` + strings.Repeat("x", 2000) + `"}`, 413, "request_too_large"},
		"a governed query":    {opened("/v1/chat/completions?model=gpt-5", buffered), "", 400, "invalid_request_error"},
		"a bad hint":          {opened("/v1/chat/completions", buffered, "x-llmgov-priority", "highest"), "", 400, "invalid_request_error"},
		"no model":            {withMetadata(opened("/v1/chat/completions", procv3.ProcessingMode_NONE), "x", new(aiv3.RequestInfo)), "", 400, "invalid_request_error"},
		"both, in parts":      {withMetadata(opened("/v1/chat/completions", procv3.ProcessingMode_STREAMED), "x", info), "", 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *setting) { s.config.MaxBody = 1024 })
			p := w.call()
			r := p.ask(c.open)
			if c.body != "" {
				r = p.ask(body(c.body))
			}
			got := r.GetImmediateResponse()
			if int(got.GetStatus().GetCode()) != c.status || !strings.Contains(string(got.GetBody()), c.code) {
				t.Errorf("%v %s", got.GetStatus(), got.GetBody())
			}
			if n := w.settled(); n != 0 {
				t.Errorf("charged %d tokens", n)
			}
		})
	}
}

// Messages in another order than a proxy's end the stream with an error, at which the proxy fails the call. An orderly
// end would let it go on without a lease.
func TestProcess_OutOfOrder(t *testing.T) {
	open := func() *pb.ProcessingRequest { return described(chatInfo(40)) }
	wait := func() *pb.ProcessingRequest { return opened("/v1/chat/completions", buffered) }
	ok := func() *pb.ProcessingRequest { return answered("200", "text/event-stream") }
	for name, c := range map[string][]*pb.ProcessingRequest{
		"an answer of the server first": {answered("200", "application/json", "x-envoy-upstream-service-time", "5")},
		"nothing":                       {{}},
		"a body first":                  {body(chat)},
		"trailers first":                {trailers()},
		"headers twice":                 {open(), open()},
		"an answer before the body":     {wait(), ok()},
		"headers again for the body":    {wait(), wait()},
		"a part before the answer":      {open(), part(delta, false)},
		"trailers before the answer":    {open(), trailers()},
		"two answers":                   {open(), ok(), ok()},
		"a request within the parts":    {open(), ok(), part(delta, false), open()},
		"an answer within the parts":    {open(), ok(), part(delta, false), ok()},
		"request trailers too late":     {open(), ok(), {Request: &pb.ProcessingRequest_RequestTrailers{}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.call()
			for i, m := range c {
				r, err := p.try(m)
				if i < len(c)-1 {
					if err != nil {
						t.Fatalf("message %d: %v", i, err)
					}
					continue
				}
				if err == nil || errors.Is(err, io.EOF) || status.Code(err) != codes.InvalidArgument {
					t.Errorf("the last message got %v, %v", r, err)
				}
			}
			w.settled()
		})
	}
}

// A call that breaks off is charged as produced; an error in place of an answer costs nothing.
func TestProcess_Charges(t *testing.T) {
	ok := answered("200", "text/event-stream")
	alone := answered("200", "application/json")
	alone.GetResponseHeaders().EndOfStream = true
	zipped := answered("200", "text/event-stream", "content-encoding", "gzip")
	gzipped := testkit.Gzip(delta + stopped + usage + done)
	for name, c := range map[string]struct {
		messages []*pb.ProcessingRequest
		want     int64
	}{
		"a head alone":              {[]*pb.ProcessingRequest{alone}, 0},
		"nothing in its place":      {[]*pb.ProcessingRequest{answered("200", "application/json"), part(`{"choices":[]}`, true)}, 0},
		"an end in its place":       {[]*pb.ProcessingRequest{ok, part(done, true)}, 0},
		"left before an answer":     {nil, 100},
		"left in the midst":         {[]*pb.ProcessingRequest{ok}, 100},
		"left after two deltas":     {[]*pb.ProcessingRequest{ok, part(delta+delta, false)}, 62},
		"left before the first":     {[]*pb.ProcessingRequest{ok, part(": wait\n\n", false)}, 100},
		"whole, without usage":      {[]*pb.ProcessingRequest{ok, part(delta+stopped+done, true)}, 61},
		"trailers without metadata": {[]*pb.ProcessingRequest{ok, trailers()}, 100},
		"parts, then metadata":      {[]*pb.ProcessingRequest{ok, part(delta+stopped+usage+done, false), used(500, 500)}, 11},
		"absurd metadata":           {[]*pb.ProcessingRequest{ok, used(50, 1<<62)}, 50},
		"an error in its place":     {[]*pb.ProcessingRequest{answered("200", "application/json"), part(`{"error":{"message":"x"}}`, true)}, 0},
		"an event in its place":     {[]*pb.ProcessingRequest{ok, part(`data: {"error":{"message":"x"}}`+"\n\n", true)}, 0},
		"of another label":          {[]*pb.ProcessingRequest{answered("200", "text/plain"), part(delta+stopped+usage+done, true)}, 11},
		"a stream in gzip":          {[]*pb.ProcessingRequest{zipped, part(gzipped[:30], false), part(gzipped[30:], true)}, 11},
		"an answer in zstd":         {[]*pb.ProcessingRequest{answered("200", "application/json", "content-encoding", "zstd"), part(testkit.Zstd(`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`), true)}, 11},
		"an error in gzip":          {[]*pb.ProcessingRequest{answered("200", "application/json", "content-encoding", "gzip"), part(testkit.Gzip(`{"error":{"message":"x"}}`), true)}, 0},
		"no gzip, but labelled":     {[]*pb.ProcessingRequest{zipped, part(delta, false), part(delta+stopped+usage+done, true)}, 60},
		"an error of the server":    {[]*pb.ProcessingRequest{answered("503", "application/json"), part("{}", true)}, 0},
		"an error of the caller":    {[]*pb.ProcessingRequest{answered("400", "application/json")}, 0},
		"the server's limit":        {[]*pb.ProcessingRequest{answered("429", "application/json"), part("{}", false), trailers()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.call()
			p.ask(described(chatInfo(40)))
			for _, m := range c.messages {
				p.ask(m)
			}
			p.leave()
			if got := w.settled(); got != c.want {
				t.Errorf("charged %d tokens, %d is right", got, c.want)
			}
		})
	}
}

// A prompt of which the proxy shows no text is held by the length of the body, unless it comes compressed: then by the proxy's estimate, or as one
// of which nothing is known.
func TestProcess_HoldsByMetadata(t *testing.T) {
	const unknown = 5000
	w := newWorld(t, func(s *setting) { s.pool.DefaultMaxOutput, s.pool.TPM = unknown, 60_000_000 })
	for _, c := range []struct {
		encoding  string
		estimated uint64
		want      int64
	}{
		{"", 60, 1000},
		{"identity", 60, 1000},
		{"gzip", 1500, 1500},
		{"zstd", 0, unknown},
		{"br", 0, unknown},
		{"gzip, zstd", 0, unknown},
	} {
		before := w.settled()
		info := chatInfo(40)
		info.EstimatedInputTokens = wrapperspb.UInt64(c.estimated)
		p := w.call()
		p.ask(described(info, "content-length", "4000", "content-encoding", c.encoding))
		p.leave() // without an answer it is charged what was held
		if got := w.settled() - before; got != c.want+40 {
			t.Errorf("%q, estimated at %d: %d tokens are held, %d is right", c.encoding, c.estimated, got, c.want+40)
		}
	}
}

// A caller that goes while it waits holds nothing.
func TestProcess_LeavesWhileItWaits(t *testing.T) {
	w := newWorld(t, func(s *setting) { s.pool.Concurrency = 1; s.acme.MaxWait = time.Hour })
	first := w.call()
	first.ask(described(chatInfo(40)))
	second := w.call()
	testkit.OK(t, second.stream.Send(described(chatInfo(40))))
	for waiting := 0; waiting == 0; {
		_, waiting = w.gov.Leases()
	}
	second.leave()
	first.leave()
	w.settled()
}

// The governor can end a call in the midst of its answer, and the proxy hears of it.
func TestProcess_Interrupted(t *testing.T) {
	for _, parts := range []bool{false, true} {
		w := newWorld(t, nil)
		p := w.call()
		p.ask(described(chatInfo(40)))
		p.ask(answered("200", "text/event-stream"))
		if parts {
			p.ask(part(delta, false))
		}
		w.gov.Interrupt("gpt", errors.New("a slot was lost"))
		if _, err := p.stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("parts %v: interrupted: %v", parts, err)
		}
		w.settled()
	}
}

// A drain whose time is over ends calls that wait for their answer or are in the midst of it.
func TestProcess_CutByDrain(t *testing.T) {
	for _, parts := range []bool{false, true} {
		w := newWorld(t, nil)
		p := w.call()
		p.ask(described(chatInfo(40)))
		if parts {
			p.ask(answered("200", "text/event-stream"))
			p.ask(part(delta, false))
		}
		w.cut(admission.ErrDraining)
		if _, err := p.stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("parts %v: cut: %v", parts, err)
		}
		if err := w.service.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.settled()
	}
}

// A tenant is named by a header or by metadata, if the policy says that the proxy is trusted to set it.
func TestProcess_Tenant(t *testing.T) {
	claims := testkit.Must(structpb.NewStruct(map[string]any{"payload": map[string]any{"team": "acme"}}))(t)
	for name, c := range map[string]struct {
		source string
		open   func() *pb.ProcessingRequest
		status int
	}{
		"header":         {"header x-team", func() *pb.ProcessingRequest { return described(chatInfo(9), "x-team", "acme") }, 0},
		"two headers":    {"header x-team", func() *pb.ProcessingRequest { return described(chatInfo(9), "x-team", "acme", "x-team", "acme") }, 401},
		"no header":      {"header x-team", func() *pb.ProcessingRequest { return described(chatInfo(9)) }, 401},
		"unknown tenant": {"header x-team", func() *pb.ProcessingRequest { return described(chatInfo(9), "x-team", "nobody") }, 401},
		"metadata": {"metadata jwt payload.team", func() *pb.ProcessingRequest {
			m := described(chatInfo(9))
			m.MetadataContext.FilterMetadata = map[string]*structpb.Struct{"jwt": claims}
			return m
		}, 0},
		"no metadata": {"metadata jwt payload.team", func() *pb.ProcessingRequest {
			m := described(chatInfo(9))
			m.MetadataContext.FilterMetadata = map[string]*structpb.Struct{}
			return m
		}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *setting) {
				var ok bool
				s.opt.Tenant, ok = extproc.ParseSource(c.source)
				if !ok {
					t.Fatal("the source cannot be read")
				}
			})
			r := w.call().ask(c.open())
			if got := int(r.GetImmediateResponse().GetStatus().GetCode()); got != c.status {
				t.Errorf("status %d, not %d: %v", got, c.status, r)
			}
			if c.status == 0 && slices.Contains(r.GetRequestHeaders().GetResponse().GetHeaderMutation().RemoveHeaders, "authorization") {
				t.Error("the proxy's own credential for the model server was removed")
			}
		})
	}
}

// Calls of proxies are bounded.
func TestProcess_Bounded(t *testing.T) {
	w := newWorld(t, func(s *setting) { s.opt.MostCalls = 1 })
	w.call().ask(described(chatInfo(40)))
	r := w.call().ask(described(chatInfo(40))).GetImmediateResponse()
	if r.GetStatus().GetCode() != http.StatusServiceUnavailable || !strings.Contains(string(r.GetBody()), "overloaded") {
		t.Errorf("the second of one call: %v", r)
	}
}

// A tenant whose calls wait has no more memory for their bodies than its part, whatever others leave free.
func TestProcess_MemoryByTenant(t *testing.T) {
	w := newWorld(t, func(s *setting) {
		s.pool.Concurrency = 1
		s.acme.MaxWait = time.Hour
		s.config.MaxBody = 256 << 10
		s.config.BodyMemory = tenants.BodyMemory{Process: 1 << 20, Tenant: 256 << 10}
	})
	w.call().ask(described(chatInfo(40)))
	large := body(`{"model":"gpt-4o","max_tokens":5,"input":"` + strings.Repeat("a", 150<<10) + `"}`)
	waits := w.call()
	waits.ask(opened("/v1/responses", buffered))
	testkit.OK(t, waits.stream.Send(large))
	for waiting := 0; waiting == 0; {
		_, waiting = w.gov.Leases()
	}
	second := w.call()
	second.ask(opened("/v1/responses", buffered))
	if r := second.ask(large).GetImmediateResponse(); !strings.Contains(string(r.GetBody()), "fill the memory") {
		t.Errorf("more of a tenant's bodies than its part: %v", r)
	}
}

// An answer that another filter has given passes.
func TestProcess_LocalReply(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.call().try(answered("400", "text/plain")); !errors.Is(err, io.EOF) {
		t.Errorf("the stream of a call that did not reach us: %v", err)
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "key": true, "header x-team": true, "metadata envoy.filters.http.jwt_authn payload.team": true,
		"header": false, "metadata a": false, "cookie a": false, "key a": false,
	} {
		if _, ok := extproc.ParseSource(text); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}

// A drain waits for the calls of proxies.
func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	p := w.call()
	p.ask(described(chatInfo(40)))
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := w.service.Drain(ctx); err == nil {
		t.Error("it did not wait for a call")
	}
	drained := make(chan error)
	go func() { drained <- w.service.Drain(t.Context()) }()
	p.leave()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// Those who follow the events see a call that its model server failed.
func TestEvents(t *testing.T) {
	ring := events.NewRing(10)
	w := newWorld(t, func(s *setting) { s.opt.Events = ring })
	reader := ring.Follow(ring.Next())
	defer reader.Close()
	p := w.call()
	p.ask(described(chatInfo(40)))
	p.ask(answered("503", "application/json"))
	p.leave()
	got, _ := reader.Read(t.Context(), make([]events.Event, 1))
	if len(got) != 1 || got[0].Failure == nil || got[0].Failure.Status != 503 || got[0].Request.Tenant != "acme" {
		t.Errorf("seen: %+v", got)
	}
}
