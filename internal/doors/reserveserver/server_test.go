package reserveserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/doors/reserveserver"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

const token = "a-token-of-sixteen-characters"

// listener is an admission listener on a real socket.
type listener struct {
	addr string
	book *reserve.Book
	gov  *governor.Governor
	ctl  *admission.Controller
	cfg  tenants.Config
	list []tenants.Tenant
}

func serve(t *testing.T, change func(*tenants.Pool, *tenants.Tenant)) *listener {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "https://example.com/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"m"}
	pool.TPM = 600_000
	var list []tenants.Tenant
	for _, name := range []string{"acme", "other"} {
		one := tenants.Tenant{Name: name, Routes: tenants.RouteInference, Keys: []tenants.Key{{Hash: tenants.HashKey("sk-" + name)}}}
		if change != nil {
			change(&pool, &one)
		}
		list = append(list, one)
	}
	cfg.Pools = []tenants.Pool{pool}
	ctl := admissiontest.Build(t, cfg, list...)
	book := reserve.New(reserve.Options{Door: inprocess.New(ctl), Tenant: ctl.TenantOf, Most: 100})
	at := admissionserver.New(admissionserver.Options{Token: token, Tenant: ctl.TenantOf, Node: "here", Log: slog.New(slog.DiscardHandler)})
	reserveserver.Register(at, book)
	on := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = at.Serve(on) }() // ends with Close
	t.Cleanup(at.Close)
	t.Cleanup(book.Close)
	return &listener{addr: on.Addr().String(), book: book, gov: ctl.Governor(), ctl: ctl, cfg: cfg, list: list}
}

// post posts a body with a credential, and returns the answer's status, headers and body.
func (l *listener) post(t *testing.T, credential, path, body string) (int, http.Header, map[string]any) {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.addr+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+credential)
	resp := testkit.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	var said map[string]any
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatalf("%s: %d %q", path, resp.StatusCode, text)
	}
	return resp.StatusCode, resp.Header, said
}

// stub speaks gRPC with a credential.
func (l *listener) stub(t *testing.T, credential string) (context.Context, admissionv1.AdmissionServiceClient) {
	t.Helper()
	conn := testkit.Must(grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential), admissionv1.NewAdmissionServiceClient(conn)
}

// used is how many tokens of the pool's minute are booked.
func (l *listener) used() int64 {
	st := l.gov.Standing("acme", "p")
	return st.Tokens.Limit - st.Tokens.Remaining
}

// The four calls, over HTTP.
func TestHTTP(t *testing.T) {
	l := serve(t, func(_ *tenants.Pool, tn *tenants.Tenant) { tn.MaxOutputTokens = 40 })
	code, _, said := l.post(t, token, "/v1/reservations", `{"tenant": "acme", "model": "m", "input_tokens": 60, "max_output_tokens": 40, "request_id": "req-1", "ttl_seconds": 30}`)
	id, _ := said["reservation_id"].(string)
	headers, _ := said["headers"].(map[string]any)
	if code != http.StatusOK || id == "" || said["ttl_seconds"] != 30. || said["tenant"] != "acme" || said["pool"] != "p" || said["max_output_tokens"] != 40. {
		t.Fatalf("reserve: %d %v", code, said)
	}
	if headers["x-ratelimit-limit-tokens"] == "" || headers["x-request-id"] != "req-1" || l.used() != 100 {
		t.Errorf("headers %v, %d tokens used", headers, l.used())
	}
	if code, _, said := l.post(t, token, "/v1/reservations/"+id+"/progress", `{"output_tokens": 5}`); code != http.StatusOK || said["ttl_seconds"] != 30. {
		t.Errorf("progress: %d %v", code, said)
	}
	for _, first := range []bool{true, false} {
		code, _, said := l.post(t, token, "/v1/reservations/"+id+"/commit", `{"outcome": "failed", "usage": {"input_tokens": 50, "output_tokens": 5}}`)
		if code != http.StatusOK || said["reservation_released"] != first || l.used() != 55 {
			t.Errorf("commit: %d %v, %d tokens used", code, said, l.used())
		}
	}
	_, _, said = l.post(t, "sk-acme", "/v1/reservations", `{"model": "m", "input_bytes": 400, "max_output_tokens": 40}`)
	id, _ = said["reservation_id"].(string)
	if n := l.used() - 55; n < 100 || n > 250 {
		t.Errorf("400 bytes of prose and 40 tokens are held at %d tokens", n)
	}
	if code, _, said := l.post(t, "sk-acme", "/v1/reservations/"+id+"/cancel", ""); code != http.StatusOK || said["reservation_released"] != true || l.used() != 55 {
		t.Errorf("cancel: %d %v, %d tokens used", code, said, l.used())
	}
	_, _, said = l.post(t, token, "/v1/reservations", `{"tenant": "acme", "model": "m", "input_tokens": 60, "max_output_tokens": 40}`)
	id, _ = said["reservation_id"].(string)
	code, _, said = l.post(t, token, "/v1/reservations/"+id+"/commit", `{"outcome": "failed", "deltas": 5, "partial": true, "usage": {"input_tokens": 50, "output_tokens": 0}}`)
	if code != http.StatusOK || l.used() != 55+50+5 {
		t.Errorf("commit of a part: %d %v, %d tokens used", code, said, l.used())
	}
}

// A bound of -1, as clients write it who mean none, is held like none.
func TestHTTP_NoBound(t *testing.T) {
	l := serve(t, nil)
	held := map[int]int64{}
	for _, bound := range []int{0, -1, 2_000_000_000} {
		before := l.used()
		code, _, said := l.post(t, token, "/v1/reservations", fmt.Sprintf(`{"tenant": "acme", "model": "m", "input_tokens": 6, "max_output_tokens": %d}`, bound))
		held[bound] = l.used() - before
		if code != http.StatusOK || held[bound] != held[0] || held[0] <= 6 {
			t.Errorf("%d: %d %v, %d tokens are held, %d without a bound", bound, code, said, held[bound], held[0])
		}
		l.post(t, token, fmt.Sprint("/v1/reservations/", said["reservation_id"], "/cancel"), "")
	}
}

// A body that is encoded is refused by its name, even where what it has could be read.
func TestHTTP_Encoded(t *testing.T) {
	l := serve(t, nil)
	for encoding, want := range map[string]int{"gzip": 415, "br": 415, "identity+gzip": 415, "identity": 200, "": 200} {
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.addr+"/v1/reservations", strings.NewReader(`{"tenant": "acme", "model": "m", "input_tokens": 1, "max_output_tokens": 1}`)))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header["Content-Encoding"] = strings.Split(encoding, "+")
		resp := testkit.Must(http.DefaultClient.Do(req))(t)
		text := testkit.Must(io.ReadAll(resp.Body))(t)
		testkit.OK(t, resp.Body.Close())
		if resp.StatusCode != want || want == 415 && !strings.Contains(string(text), strings.ReplaceAll(encoding, "+", ", ")) {
			t.Errorf("%q: %d %s", encoding, resp.StatusCode, text)
		}
	}
}

// A refusal is the answer that the gateway would give to the call itself, and says the same over gRPC.
func TestRefusal(t *testing.T) {
	l := serve(t, func(_ *tenants.Pool, tn *tenants.Tenant) { tn.RPM = 1 })
	const ask = `{"tenant": "acme", "model": "m", "input_tokens": 6, "max_output_tokens": 4}`
	if code, _, said := l.post(t, token, "/v1/reservations", ask); code != http.StatusOK {
		t.Fatalf("%d %v", code, said)
	}
	code, header, said := l.post(t, token, "/v1/reservations", ask)
	fault, _ := said["error"].(map[string]any)
	if code != http.StatusTooManyRequests || fault["code"] != "rate_limit_exceeded" || fault["type"] != "requests" || header.Get("Retry-After") == "" || header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("%d %v %v", code, header, said)
	}
	ctx, stub := l.stub(t, token)
	answer := testkit.Must(stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: "m", InputTokens: 6, MaxOutputTokens: 4}))(t)
	r := answer.Refusal
	if r.GetStatus() != 429 || r.Code != "rate_limit_exceeded" || r.Type != "requests" || r.RetryAfter.AsDuration() <= 0 || r.RequestId == "" || answer.Headers["retry-after"] == "" || answer.Headers["x-ratelimit-remaining-requests"] != "0" {
		t.Errorf("%v", answer)
	}
}

// What is wrong is refused with what, where, and what to do, and holds nothing.
func TestBadInput(t *testing.T) {
	l := serve(t, nil)
	for _, c := range []struct {
		name, credential, path, body string
		status                       int
		code, says                   string
	}{
		{"unknown tenant", token, "", `{"tenant": "nobody", "model": "m"}`, 401, "invalid_api_key", "nobody"},
		{"nobody", token, "", `{"model": "m"}`, 401, "invalid_api_key", "key"},
		{"another tenant by a key", "sk-acme", "", `{"tenant": "other", "model": "m"}`, 403, "route_not_allowed", "admission.token"},
		{"another key by a key", "sk-acme", "", `{"key": "sk-other", "model": "m"}`, 403, "route_not_allowed", "admission.token"},
		{"no credential", "", "", `{"model": "m"}`, 401, "invalid_api_key", "bearer"},
		{"unknown key", "sk-none", "", `{"model": "m"}`, 401, "invalid_api_key", "bearer"},
		{"unknown model", token, "", `{"tenant": "acme", "model": "x"}`, 404, "model_not_found", "x"},
		{"instead of it an unknown model", token, "", `{"tenant": "acme", "model": "m", "instead": ["x"]}`, 404, "model_not_found", "x"},
		{"a name of two words", token, "", `{"tenant": "acme", "model": "m", "reservation_id": "two words"}`, 400, "invalid_request_error", "reservation_id"},
		{"negative", token, "", `{"tenant": "acme", "model": "m", "input_tokens": -1}`, 400, "invalid_request_error", "input_tokens"},
		{"absurd", token, "", `{"tenant": "acme", "model": "m", "input_tokens": 9000000000000000000}`, 400, "invalid_request_error", "input_tokens"},
		{"beyond numbers", token, "", `{"tenant": "acme", "model": "m", "input_tokens": 1e30}`, 400, "invalid_request_error", "input_tokens"},
		{"negative wait", token, "", `{"tenant": "acme", "model": "m", "max_wait_seconds": -1}`, 400, "invalid_request_error", "max_wait"},
		{"an age of waiting", token, "", `{"tenant": "acme", "model": "m", "max_wait_seconds": 1e300}`, 400, "invalid_request_error", "max_wait"},
		{"an age of life", token, "", `{"tenant": "acme", "model": "m", "ttl_seconds": 1e300}`, 400, "invalid_request_error", "ttl"},
		{"a moment of life", token, "", `{"tenant": "acme", "model": "m", "ttl_seconds": 0.001}`, 400, "invalid_request_error", "ttl"},
		{"negative bytes", token, "", `{"tenant": "acme", "model": "m", "input_bytes": -1}`, 400, "invalid_request_error", "input_bytes"},
		{"unknown key of the body", token, "", `{"tenant": "acme", "modle": "m"}`, 400, "invalid_request_error", "modle"},
		{"no JSON", token, "", `model=m`, 400, "invalid_request_error", "invalid character"},
		{"a key in another case", token, "", `{"tenant": "acme", "Model": "m"}`, 400, "invalid_request_error", "Model"},
		{"a key by an escape in another case", token, "", `{"tenant": "acme", "\u004dodel": "m"}`, 400, "invalid_request_error", "Model"},
		{"a key in letters that fold to its own", token, "", `{"tenant": "acme", "model": "m", "input_to\u212aens": 5}`, 400, "invalid_request_error", "input_to"},
		{"a key twice", token, "", `{"tenant": "acme", "model": "m", "model": "m"}`, 400, "invalid_request_error", "twice"},
		{"a key twice, once by an escape", token, "", `{"tenant": "acme", "model": "m", "\u006dodel": "m"}`, 400, "invalid_request_error", "twice"},
		{"a key twice, further in", token, "", `{"tenant": "acme", "model": "m", "retry": {"key": "a", "key": "b"}}`, 400, "invalid_request_error", "twice"},
		{"a key twice at the end", token, "/none/commit", `{"usage": {"input_tokens": 1, "input_tokens": 2, "output_tokens": 1}}`, 400, "invalid_request_error", "twice"},
		{"a key in another case while it runs", token, "/none/progress", `{"Output_tokens": 1}`, 400, "invalid_request_error", "Output_tokens"},
		{"no UTF-8", token, "", `{"tenant": "acme", "model": "` + "\xff" + `"}`, 400, "invalid_request_error", "UTF-8"},
		{"a bound below none", token, "", `{"tenant": "acme", "model": "m", "max_output_tokens": -2}`, 400, "invalid_request_error", "max_output_tokens must be from -1"},
		{"no object", token, "/none/cancel", `null`, 400, "invalid_request_error", "object"},
		{"two objects", token, "", `{"tenant": "acme", "model": "m"}{}`, 400, "invalid_request_error", "behind"},
		{"too large", token, "", `{"model": "` + strings.Repeat("m", 70<<10) + `"}`, 413, "request_too_large", "64 KiB"},
		{"commit of nothing", token, "/none/commit", `{}`, 404, "not_found", "none"},
		{"unknown outcome", token, "/none/commit", `{"outcome": "fine"}`, 400, "invalid_request_error", "fine"},
		{"a status that is no error's", token, "/none/commit", `{"outcome": "answered_error", "status": 200}`, 400, "invalid_request_error", "status"},
		{"a status without an error", token, "/none/commit", `{"status": 503}`, 400, "invalid_request_error", "answered_error"},
		{"negative usage", token, "/none/commit", `{"usage": {"input_tokens": -1, "output_tokens": 0}}`, 400, "invalid_request_error", "usage.input_tokens"},
		{"negative progress", token, "/none/progress", `{"output_tokens": -1}`, 400, "invalid_request_error", "output_tokens"},
		{"cancel of nothing", token, "/none/cancel", ``, 404, "not_found", "none"},
	} {
		code, _, said := l.post(t, c.credential, "/v1/reservations"+c.path, c.body)
		fault, _ := said["error"].(map[string]any)
		text, _ := fault["message"].(string)
		if code != c.status || fault["code"] != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %v", c.name, code, said)
		}
	}
	if n, _ := l.gov.Leases(); n+l.book.Open() != 0 {
		t.Errorf("%d leases are left, %d reservations", n, l.book.Open())
	}
}

// TestMisread: a reservation whose end is told wrong is over all the same, charged by estimate, and what it took may be told again.
func TestMisread(t *testing.T) {
	l := serve(t, nil)
	for name, c := range map[string]struct {
		path, body string
		want       int64
	}{
		"negative usage":      {"commit", `{"usage": {"input_tokens": -1, "output_tokens": 5}}`, 90},
		"too large":           {"commit", `{"usage": {"output_tokens": 1000000001}}`, 90},
		"not a number":        {"commit", `{"usage": {"input_tokens": true}}`, 90},
		"a fraction":          {"commit", `{"output_tokens": 1.5}`, 90},
		"negative deltas":     {"commit", `{"deltas": -4}`, 90},
		"unknown outcome":     {"commit", `{"outcome": "fine"}`, 90},
		"status of no error":  {"commit", `{"status": 503}`, 90},
		"no JSON":             {"commit", `usage=5`, 90},
		"cancelled for a why": {"cancel", `{"reason": "no"}`, 90},
	} {
		before := l.used()
		_, _, said := l.post(t, token, "/v1/reservations", `{"tenant": "acme", "model": "m", "input_tokens": 60, "max_output_tokens": 40}`)
		at := fmt.Sprint("/v1/reservations/", said["reservation_id"])
		if code, _, said := l.post(t, token, at+"/"+c.path, c.body); code != http.StatusBadRequest {
			t.Errorf("%s: %d %v", name, code, said)
		}
		if n, _ := l.gov.Leases(); n+l.book.Open() != 0 {
			t.Fatalf("%s: it is held still", name)
		}
		code, _, said := l.post(t, token, at+"/commit", `{"usage": {"input_tokens": 70, "output_tokens": 20}}`)
		if took := l.used() - before; code != http.StatusOK || took < c.want || took > 110 {
			t.Errorf("%s, and told again: %d %v, charged %d tokens", name, code, said, took)
		}
	}
}

// TestMisread_GRPC is TestMisread for what only gRPC can tell.
func TestMisread_GRPC(t *testing.T) {
	l := serve(t, nil)
	ctx, stub := l.stub(t, token)
	for _, bad := range []*admissionv1.CommitRequest{{Outcome: 77}, {Status: 503}, {Usage: &admissionv1.Usage{ReasoningTokens: -1}}, {OutputTokens: -1}} {
		answer, err := stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: "m", InputTokens: 6, MaxOutputTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		bad.ReservationId = answer.ReservationId
		if _, err := stub.Commit(ctx, bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
		if n, _ := l.gov.Leases(); n+l.book.Open() != 0 {
			t.Fatalf("%v: it is held still", bad)
		}
	}
}

// TestBounds: a number is taken up to the bounds that openapi.json gives it, and not beyond them.
func TestBounds(t *testing.T) {
	type schema struct {
		Properties map[string]struct{ Minimum, Maximum *float64 }
	}
	var described struct {
		Components struct{ Schemas map[string]schema }
	}
	testkit.OK(t, json.Unmarshal(reserveserver.OpenAPI, &described))
	l := serve(t, nil)
	tried := 0
	for _, of := range []struct{ schema, path, body string }{
		{"ReserveserverReserveRequest", "", `{"tenant": "acme", "model": "m", "%s": %.0f}`},
		{"ReserveserverRetryJSON", "", `{"tenant": "acme", "model": "m", "retry": {"key": "k", "%s": %.0f}}`},
		{"ReserveserverProgressAsk", "/none/progress", `{"%s": %.0f}`},
		{"ReserveserverCommitAsk", "/none/commit", `{"outcome": "answered_error", "%s": %.0f}`},
		{"ReserveserverUsageJSON", "/none/commit", `{"usage": {"%s": %.0f}}`},
	} {
		for name, bounds := range described.Components.Schemas[of.schema].Properties {
			try := func(n float64, good bool) {
				tried++
				code, _, said := l.post(t, token, "/v1/reservations"+of.path, fmt.Sprintf(of.body, name, n))
				if (code != http.StatusBadRequest) != good {
					t.Errorf("%s of %.0f: %d %v", name, n, code, said)
				}
			}
			if bounds.Minimum != nil {
				try(*bounds.Minimum, true)
				try(*bounds.Minimum-1, false)
			}
			if bounds.Maximum != nil {
				try(*bounds.Maximum, true)
				try(*bounds.Maximum+1, false)
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d numbers were tried", tried)
	}
}

// Nobody ends what somebody else has reserved, by whatever protocol.
func TestSomebodyElses(t *testing.T) {
	l := serve(t, nil)
	ctx, mine := l.stub(t, "sk-acme")
	answer, err := mine.Reserve(ctx, &admissionv1.ReserveRequest{Model: "m", InputTokens: 60, MaxOutputTokens: 40})
	if err != nil || answer.Refusal != nil {
		t.Fatalf("%v, %v", answer, err)
	}
	id := answer.ReservationId
	theirs, other := l.stub(t, "sk-other")
	_, commit := other.Commit(theirs, &admissionv1.CommitRequest{ReservationId: id})
	_, cancel := other.Cancel(theirs, &admissionv1.CancelRequest{ReservationId: id})
	_, progress := other.Progress(theirs, &admissionv1.ProgressRequest{ReservationId: id})
	for what, err := range map[string]error{"commit": commit, "cancel": cancel, "progress": progress} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	if code, _, said := l.post(t, "sk-other", "/v1/reservations/"+id+"/commit", `{}`); code != http.StatusNotFound {
		t.Errorf("%d %v", code, said)
	}
	if l.used() != 100 {
		t.Errorf("%d tokens used", l.used())
	}
	if end, err := mine.Commit(ctx, &admissionv1.CommitRequest{ReservationId: id, Usage: &admissionv1.Usage{InputTokens: 1}}); err != nil || !end.ReservationReleased {
		t.Errorf("%v, %v", end, err)
	}
}

// What gRPC can say and JSON cannot is checked, too.
func TestGRPC_BadInput(t *testing.T) {
	l := serve(t, nil)
	ctx, stub := l.stub(t, token)
	good := func() *admissionv1.ReserveRequest { return &admissionv1.ReserveRequest{Tenant: "acme", Model: "m"} }
	for _, c := range []struct {
		param string
		spoil func(*admissionv1.ReserveRequest)
	}{
		{"ttl", func(r *admissionv1.ReserveRequest) { r.Ttl = &durationpb.Duration{Seconds: 1, Nanos: -1} }},
		{"max_wait", func(r *admissionv1.ReserveRequest) { r.MaxWait = &durationpb.Duration{Seconds: 1 << 60} }},
		{"input_weights", func(r *admissionv1.ReserveRequest) { r.InputWeights = make([]int64, 100) }},
		{"input_size", func(r *admissionv1.ReserveRequest) { r.InputWeights = []int64{5, -5} }},
		{"input_size", func(r *admissionv1.ReserveRequest) { r.InputWeights = []int64{1 << 62, 1 << 62, 1 << 62, 1 << 62, 640} }}, // their sum is 640
	} {
		req := good()
		c.spoil(req)
		answer, err := stub.Reserve(ctx, req)
		if err != nil || answer.Refusal.GetStatus() != 400 || answer.Refusal.Param != c.param {
			t.Errorf("%s: %v, %v", c.param, answer, err)
		}
	}
	if _, err := stub.Commit(ctx, &admissionv1.CommitRequest{Outcome: 99}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("outcome: %v", err)
	}
	if _, err := stub.Commit(ctx, &admissionv1.CommitRequest{Status: 503}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a status without an error: %v", err)
	}
}

// A request over gRPC is bounded as one over HTTP is.
func TestGRPC_TooLarge(t *testing.T) {
	l := serve(t, nil)
	ctx, stub := l.stub(t, token)
	ask := func(bytes int) error {
		_, err := stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: strings.Repeat("m", bytes)})
		return err
	}
	if err := ask(60 << 10); err != nil {
		t.Errorf("60 KiB: %v", err)
	}
	if err := ask(64 << 10); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("64 KiB and a tenant: %v", err)
	}
	if n, _ := l.gov.Leases(); n > 0 {
		t.Errorf("%d leases are left", n)
	}
}

// A wait ends when the asking connection goes away, by either protocol.
func TestWaitEndsWithTheConnection(t *testing.T) {
	l := serve(t, func(p *tenants.Pool, tn *tenants.Tenant) {
		p.Concurrency = 1
		tn.MaxWait = time.Hour
	})
	ctx, stub := l.stub(t, token)
	first := testkit.Must(stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: "m"}))(t)
	for name, ask := range map[string]func(context.Context) error{
		"gRPC": func(ctx context.Context) error {
			_, err := stub.Reserve(ctx, &admissionv1.ReserveRequest{Tenant: "acme", Model: "m"})
			return err
		},
		"HTTP": func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.addr+"/v1/reservations", bytes.NewReader([]byte(`{"tenant": "acme", "model": "m"}`)))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		},
	} {
		asking, leave := context.WithCancel(ctx)
		said := make(chan error, 1)
		go func() { said <- ask(asking) }()
		l.await(t, 1)
		leave()
		if err := <-said; !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		l.await(t, 0)
	}
	if _, err := stub.Cancel(ctx, &admissionv1.CancelRequest{ReservationId: first.ReservationId}); err != nil {
		t.Error(err)
	}
	l.eventually(t, "no lease and no reservation is left", func() bool { n, _ := l.gov.Leases(); return n+l.book.Open() == 0 })
}

// await waits until so many calls wait.
func (l *listener) await(t *testing.T, want int) {
	t.Helper()
	l.eventually(t, fmt.Sprint(want, " calls wait"), func() bool { _, waiting := l.gov.Leases(); return waiting == want })
}

func (l *listener) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never was so: %s", what)
		}
	}
}
