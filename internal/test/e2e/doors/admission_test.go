package doors

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// admissionGRPC is a program that asks a running llmgov by gRPC. It differs from transport by the line that opens
// its governor.
var admissionGRPC = Door{
	Name: "reserve and commit, gRPC",
	Open: func(t *testing.T, s *Site) Post {
		s.Serve()
		governed := testkit.Must(remote.Dial(s.Admission, remote.Options{Token: AdmissionToken, TTL: s.Lasts}))(t)
		return reserving(t, s, governed)
	},
	InFlight: GoesOn,
	Away:     Fails,
}

// admissionHTTP is a program that asks by HTTP and JSON, as any language can.
var admissionHTTP = Door{
	Name: "reserve and commit, HTTP",
	Open: func(t *testing.T, s *Site) Post {
		s.Serve()
		door := &jsonDoor{base: "http://" + s.Admission + "/v1/reservations", token: AdmissionToken, http: &http.Client{Transport: newTransport(t), Timeout: time.Minute}}
		return reserving(t, s, doors.Open(door, doors.Options{}))
	},
	InFlight: GoesOn,
	Away:     Fails,
}

// reserving is a program that calls the model server by itself, governed by a client.
func reserving(t *testing.T, s *Site, governed *client.Client) Post {
	t.Cleanup(func() {
		if err := governed.Close(); err != nil {
			t.Error(err)
		}
	})
	opt := govhttp.Options{Caller: func(r *http.Request) govhttp.Caller { return govhttp.ByKey(r) }}
	return postTo(&http.Client{Transport: govhttp.Transport(governed, newTransport(t), opt)}, s.ModelURL)
}

// jsonDoor is a doors.Door that knows only HTTP and JSON.
type jsonDoor struct {
	base, token string
	http        *http.Client
}

func (d *jsonDoor) Shutdown(context.Context) error { return nil }

// ask posts a body, and reads the answer into a value, or returns its refusal.
func (d *jsonDoor) ask(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := d.http.Do(req)
	if err != nil {
		return &client.Refusal{Status: http.StatusServiceUnavailable, Message: err.Error(), Header: http.Header{}}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return json.NewDecoder(resp.Body).Decode(into)
	}
	var said struct {
		Error struct{ Message, Code string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return &client.Refusal{Status: resp.StatusCode, Code: client.Code(said.Error.Code), Message: said.Error.Message, Header: resp.Header}
}

func (d *jsonDoor) Reserve(ctx context.Context, req client.Request) (doors.Held, error) {
	id := "rsv_" + rand.Text()
	ask := map[string]any{
		"reservation_id": id, "key": req.Key, "model": req.Model, "input_bytes": req.InputSize.Weight() / tokens.DocumentOf(1), "max_output_tokens": req.MaxOutput, "stream": req.Stream,
	}
	var answer struct {
		ID      string            `json:"reservation_id"`
		Headers map[string]string `json:"headers"`
	}
	if err := d.ask(ctx, "", ask, &answer); err != nil {
		if ctx.Err() != nil { // it may have been made, although the answer came too late
			_ = d.ask(context.WithoutCancel(ctx), "/"+id+"/cancel", map[string]any{}, &struct{}{})
			return nil, ctx.Err()
		}
		return nil, err
	}
	return &jsonHeld{door: d, id: answer.ID, path: "/" + answer.ID, headers: answer.Headers}, nil
}

// jsonHeld is what a jsonDoor keeps for a lease.
type jsonHeld struct {
	door    *jsonDoor
	id      string
	path    string
	headers map[string]string
}

func (h *jsonHeld) Grant() client.Grant { return client.Grant{ID: h.id} }

func (h *jsonHeld) Progress(p client.Produced) {
	_ = h.door.ask(context.Background(), h.path+"/progress", map[string]any{"output_tokens": p.Tokens, "deltas": p.Deltas}, &struct{}{})
}

func (h *jsonHeld) EndBy(context.CancelCauseFunc) {}

func (h *jsonHeld) Show(header http.Header) {
	for name, value := range h.headers {
		header.Set(name, value)
	}
}

func (h *jsonHeld) End(e client.End) {
	if e.Outcome == client.NotSent {
		_ = h.door.ask(context.Background(), h.path+"/cancel", map[string]any{}, &struct{}{})
		return
	}
	end := map[string]any{"outcome": e.Outcome.String(), "output_tokens": e.Produced.Tokens, "deltas": e.Produced.Deltas}
	if e.Status > 0 {
		end["status"] = e.Status
	}
	if e.Reported {
		end["usage"] = map[string]any{
			"input_tokens": e.Usage.Input, "output_tokens": e.Usage.Output, "cached_input_tokens": e.Usage.CachedInput, "reasoning_tokens": e.Usage.Reasoning,
		}
	}
	_ = h.door.ask(context.Background(), h.path+"/commit", end, &struct{}{})
}

// inside has no llmgov that could be killed.
var inside = map[string]string{"llmgov": "The governor is in the program, and ends with it."}

// transport is a program whose HTTP client is governed by a governor inside it.
var transport = Door{
	Name: "Go, RoundTripper",
	Open: func(t *testing.T, s *Site) Post {
		opt := govhttp.Options{Caller: func(r *http.Request) govhttp.Caller { return govhttp.ByKey(r) }}
		return postTo(&http.Client{Transport: govhttp.Transport(s.embed(), newTransport(t), opt)}, s.ModelURL)
	},
	Cannot: inside,
}

// middleware is a server in front of models that has its governor inside it.
var middleware = Door{
	Name: "Go, middleware",
	Open: func(t *testing.T, s *Site) Post {
		model := testkit.Must(url.Parse(s.ModelURL))(t)
		pass := &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(model) },
			Transport:     newTransport(t),
			FlushInterval: -1,
			ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, 0),
		}
		server := httptest.NewUnstartedServer(govhttp.Middleware(s.embed(), govhttp.Options{})(pass))
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		server.Start()
		t.Cleanup(server.Close)
		return postTo(&http.Client{Transport: newTransport(t)}, server.URL)
	},
	Cannot: inside,
}

// embed opens a governor in this process, by the site's config.
func (s *Site) embed() *client.Client {
	s.t.Helper()
	governed := testkit.Must(embedded.Open(context.Background(), s.Config, embedded.Options{Log: slog.New(slog.DiscardHandler), Env: []string{}}))(s.t)
	s.t.Cleanup(func() {
		if err := governed.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.Scrape = func() string {
		w := httptest.NewRecorder()
		governed.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return w.Body.String()
	}
	return governed.Client
}

// newTransport has connections of its own, so that tests can end them.
func newTransport(t *testing.T) *http.Transport {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.MaxIdleConnsPerHost = 256
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
