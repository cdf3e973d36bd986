package servers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/testkit"
)

// kase is a promise that is kept in front of every server.
type kase struct {
	name  string
	title string // in the table
	run   func(*testing.T, *running)
}

var cases = []kase{
	{"usage", "streams and whole answers of chat, completions and responses: charged is what the server's metrics count, asked for or not", usageIsCharged},
	{"abort", "a caller that leaves in mid-stream or before the answer: the server stops, the slot is free", abortStops},
	{"refusals", "what the server refuses reaches the caller as it is, and is not charged", refusalsPass},
	{"concurrency", "`concurrency: 5`, 40 calls at once: never more than 5 run in the server, none waits there", concurrencyIsExact},
	{"shares", "weights 4 : 2 : 1 get 4 : 2 : 1 of the slots' time, within 2 %", sharesByWeight},
	{"knee", "`adaptive: gradient` finds the server's 8 slots", kneeIsFound},
	{"killed", "the server is killed in mid-stream: the stream ends with an error, the slot is free, new calls are told 502 or 503", serverIsKilled},
}

func usageIsCharged(t *testing.T, r *running) {
	s := newSite(t, r, "concurrency: 8", map[string]int{"acme": 1})
	const output = 20
	text := `{"model":"m","max_tokens":20,"ignore_eos":true,"stream":%s"prompt":"How long is a piece of string?"}`
	for _, c := range []struct{ path, body string }{
		{"chat/completions", chat(output, false, "")},
		{"chat/completions", chat(output, true, askForUsage)},
		{"chat/completions", chat(output, true, "")},
		{"completions", strings.Replace(text, "%s", "false,", 1)},
		{"completions", strings.Replace(text, "%s", "true,", 1)},
		{"responses", `{"model":"m","max_output_tokens":20,"input":"How long is a piece of string?"}`},
		{"responses", `{"model":"m","max_output_tokens":20,"stream":true,"input":"How long is a piece of string?"}`},
	} {
		got := s.call(t.Context(), c.path, "acme", c.body)
		if got.err != nil || got.status != http.StatusOK {
			t.Errorf("%s: %+v", c.path, got)
		}
	}
	s.atRest()
	prompt, generated := s.worked()
	t.Logf("the server: %d tokens of prompts, %d generated; charged: %d, %d", prompt, generated, s.charged("input"), s.charged("output"))
	if prompt == 0 || s.charged("input") != prompt || s.charged("output") != generated {
		t.Errorf("charged %d and %d tokens, the server counts %d and %d", s.charged("input"), s.charged("output"), prompt, generated)
	}
}

// quiet is how long nobody asks a server for anything, while it finds out that a caller has left: llama.cpp's looks
// once a second, and then only if it has produced nothing for anybody else meanwhile.
const quiet = 2 * time.Second

// abortStops leaves a call alone in the server.
func abortStops(t *testing.T, r *running) {
	s := newSite(t, r, "concurrency: 8", map[string]int{"acme": 1})
	const output = 900
	charged := int64(0)
	for _, stream := range []bool{true, false} {
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			resp, err := s.open(ctx, "chat/completions", "acme", chat(output, stream, ""))
			if err != nil {
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
		s.waitUntilRuns()
		leave()
		<-answered
		time.Sleep(quiet)
		if now := r.load(t); now.running > 0 || s.leases() > 0 {
			t.Errorf("%s after the caller left, the server runs %d calls, and llmgov %d", quiet, now.running, s.leases())
		}
		s.atRest()
		_, generated := s.worked()
		t.Logf("stream %t: %d of %d tokens were generated, and %d are charged", stream, generated, output, s.charged("output")-charged)
		if generated >= output {
			t.Errorf("the server went on to the end: %d tokens", generated)
		}
		s.before = r.load(t)
		charged = s.charged("output")
	}
}

// waitUntilRuns waits until a call runs in the server, and a little longer.
func (s *site) waitUntilRuns() {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); s.server.load(s.t).running == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatal("no call runs in the server")
		}
	}
	time.Sleep(100 * time.Millisecond)
}

// wrong are calls that servers refuse, in the order of the table.
var wrong = []struct{ name, title, body string }{
	{"long", "a prompt longer than the context", strings.Replace(chat(10, true, ""), "How long", strings.Repeat("How long ", 300), 1)},
	{"model", "an unknown model", strings.Replace(chat(5, false, ""), `"m"`, `"unknown"`, 1)},
	{"content", "`messages` that are no list", `{"model":"m","messages":"How long?"}`},
}

func refusalsPass(t *testing.T, r *running) {
	s := newSite(t, r, "concurrency: 8", map[string]int{"acme": 1})
	if got := s.call(t.Context(), "chat/completions", "acme", `{"model":`); got.status != http.StatusBadRequest {
		t.Errorf("JSON that breaks off: %+v", got)
	}
	for _, w := range wrong {
		want := r.refuses[w.name]
		before := s.charged("output")
		got := s.call(t.Context(), "chat/completions", "acme", w.body)
		kind := gjson.Get(got.body, "error.type").String()
		if got.err != nil || got.status != want.status || kind != want.kind {
			t.Errorf("%s: %d %s, known is %+v: %s", w.name, got.status, kind, want, got.body)
		}
		s.atRest()
		if charged := s.charged("output") - before; got.status >= 400 && charged != 0 {
			t.Errorf("%s: charged %d tokens", w.name, charged)
		}
	}
}

func concurrencyIsExact(t *testing.T, r *running) {
	s := newSite(t, r, "concurrency: 5", map[string]int{"acme": 1})
	ctx, done := context.WithCancel(t.Context())
	var mostRunning, mostWaiting, looks int
	var watch sync.WaitGroup
	watch.Go(func() {
		for ; ctx.Err() == nil; looks++ {
			now := r.load(t)
			mostRunning = max(mostRunning, now.running)
			mostWaiting = max(mostWaiting, now.waiting)
		}
	})
	testkit.AtOnce(40, func(_ int) {
		if got := s.call(t.Context(), "chat/completions", "acme", chat(30, true, "")); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	})
	done()
	watch.Wait()
	t.Logf("in %d looks the server ran up to %d calls and let up to %d wait", looks, mostRunning, mostWaiting)
	if mostRunning != 5 || mostWaiting > 0 {
		t.Errorf("the server ran up to %d calls and let up to %d wait; 5 are allowed", mostRunning, mostWaiting)
	}
	s.atRest()
}

func serverIsKilled(t *testing.T, r *running) {
	s := newSite(t, r, "concurrency: 8", map[string]int{"acme": 1})
	resp := testkit.Must(s.open(t.Context(), "chat/completions", "acme", chat(900, true, "")))(t)
	defer resp.Body.Close()
	testkit.Must(io.CopyN(io.Discard, resp.Body, 1000))(t)
	r.kill()
	rest, err := io.ReadAll(resp.Body)
	t.Logf("the stream ends by %v with …%s", err, rest[max(0, len(rest)-300):])
	if strings.Contains(string(rest), "[DONE]") {
		t.Error("the stream looks complete")
	}
	for until := time.Now().Add(20 * time.Second); s.leases() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d leases are left", s.leases())
		}
	}
	got := s.call(t.Context(), "chat/completions", "acme", chat(5, false, ""))
	if got.status != http.StatusBadGateway && got.status != http.StatusServiceUnavailable {
		t.Errorf("a call while the server is away: %+v", got)
	}
}
