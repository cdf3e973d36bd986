package servers

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/tidwall/gjson"
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

// mostTokens is the most that a call of a flood asks for.
const mostTokens = 50

// flood keeps so many callers of each tenant asking until ctx ends. done is told the tokens of each answer.
func (s *site) flood(ctx context.Context, callers int, tenants map[string]int, done func(tenant string, tokens int)) *sync.WaitGroup {
	var group sync.WaitGroup
	for tenant := range tenants {
		for i := range callers {
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for ctx.Err() == nil {
					tokens := 10 + rnd.IntN(mostTokens-9)
					got := s.call(ctx, "chat/completions", tenant, chat(tokens, true, ""))
					switch {
					case ctx.Err() != nil:
					case got.status == http.StatusOK:
						done(tenant, tokens)
					default:
						s.t.Errorf("%s: %+v", tenant, got)
						return
					}
				}
			})
		}
	}
	return &group
}

// sharesByWeight holds the time for which tenants had slots against their weights, because time is what llmgov shares of slots.
// It only logs the tokens of the answers that they got. These follow the time as far as the server is equally fast all the time:
// while its speed varies, tenants of larger weights get more of the slots when it is fast, and fewer when it is slow.
func sharesByWeight(t *testing.T, r *running) {
	weights := map[string]int{"four": 4, "two": 2, "one": 1}
	s := newSite(t, r, "concurrency: 8", weights)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var counted atomic.Bool
	var got [5]atomic.Int64 // by weight
	callers := s.flood(ctx, 12, weights, func(tenant string, tokens int) {
		if counted.Load() {
			got[weights[tenant]].Add(int64(tokens))
		}
	})
	time.Sleep(10 * time.Second)
	from := time.Now()
	counted.Store(true)
	time.Sleep(*measured)
	counted.Store(false)
	to := time.Now()
	time.Sleep(2 * time.Second) // for the calls that run
	stop()
	callers.Wait()
	s.atRest()
	occupied := s.occupied(from, to)
	all := occupied["four"] + occupied["two"] + occupied["one"]
	sum := got[4].Load() + got[2].Load() + got[1].Load()
	for tenant, weight := range weights {
		due := all * float64(weight) / 7
		t.Logf("%s: %.0f of %.0f s of slots in %s, %.1f %% of what is due", tenant, occupied[tenant], all, *measured, 100*occupied[tenant]/due)
		if math.Abs(occupied[tenant]-due) > 0.02*due+2 { // a call cannot be split
			t.Errorf("%s had slots for %.0f s, %.0f are due", tenant, occupied[tenant], due)
		}
		tokens := float64(got[weight].Load())
		due = float64(sum) * float64(weight) / 7
		t.Logf("%s: %.0f of %d tokens, %.1f %% of its part by weight", tenant, tokens, sum, 100*tokens/due)
	}
}

// occupied is for how many seconds tenants had slots in a stretch of time, by llmgov's log of calls that came to their end.
func (s *site) occupied(from, to time.Time) map[string]float64 {
	seconds := map[string]float64{}
	for text := range strings.Lines(s.gov.Log()) {
		line := gjson.Parse(text)
		if line.Get("outcome").String() != "ok" {
			continue
		}
		ran := line.Get("duration_ms").Float() - line.Get("queue_ms").Float()
		ended := line.Get("time").Time()
		began := ended.Add(-time.Duration(ran * float64(time.Millisecond)))
		if began.Before(from) {
			began = from
		}
		if ended.After(to) {
			ended = to
		}
		if ended.After(began) {
			seconds[line.Get("tenant").String()] += ended.Sub(began).Seconds()
		}
	}
	return seconds
}

// kneeIsFound floods a pool whose limit adapts, and compares what is done with a pool whose limit is the server's.
func kneeIsFound(t *testing.T, r *running) {
	fixed := underFlood(t, r, fmt.Sprintf("concurrency: %d", slots))
	found := underFlood(t, r, "concurrency: {adaptive: gradient, min: 2, max: 64}")
	t.Logf("%d slots: %s; adaptive: %s", slots, fixed, found)
	if found.limit < 0.75*slots || found.limit > 1.25*slots {
		t.Errorf("the limit is %.1f in the mean, the server has %d slots", found.limit, slots)
	}
	if found.waiting > slots/4. {
		t.Errorf("%.1f calls wait in the server in the mean", found.waiting)
	}
}

// flooded are means over a flood, once the limit has had time to move.
type flooded struct {
	limit     float64
	running   float64
	waiting   float64
	perSecond float64 // tokens
}

func (f flooded) String() string {
	return fmt.Sprintf("limit %.1f, %.1f run and %.1f wait in the server, %.0f tokens/s", f.limit, f.running, f.waiting, f.perSecond)
}

func underFlood(t *testing.T, r *running, concurrency string) flooded {
	t.Helper()
	s := newSite(t, r, concurrency, map[string]int{"acme": 1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	callers := s.flood(ctx, 3*slots, map[string]int{"acme": 1}, func(string, int) {})
	settle := min(*measured, 2*time.Minute) / 2
	time.Sleep(settle)
	var sum flooded
	looks := 0.
	from := time.Now()
	_, before := s.worked()
	for until := from.Add(settle); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		now := r.load(t)
		sum.limit += processtest.Sum(s.gov.Scrape(s.t), "llmgov_concurrency_limit", `pool="p"`)
		sum.running += float64(now.running)
		sum.waiting += float64(now.waiting)
		looks++
	}
	_, after := s.worked()
	perSecond := float64(after-before) / time.Since(from).Seconds()
	stop()
	callers.Wait()
	s.atRest()
	return flooded{limit: sum.limit / looks, running: sum.running / looks, waiting: sum.waiting / looks, perSecond: perSecond}
}
