package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	chunks    = 100
	maxTokens = 4096 // of the load, above the clamp
	// maxConnections bounds the connections of any workload.
	maxConnections = 64
)

// workload is one kind of request.
type workload struct {
	name, title string
	connections int
	chunks      int    // 0: not a stream
	route       string // "" is /chat/completions
	body        string
	answer      int     // least bytes of its answer; 0 is not checked
	secure      bool    // callers speak TLS with the proxies
	aim         float64 // largest ratio of llmgov to the bare proxy, for -check; 0 is no bound
	// together is set if no core is kept busy: then both proxies are measured at the same time.
	together bool
}

var workloads = []workload{
	{name: "short8", title: "short chat, 0.4 KB in, 8 connections", connections: 8, body: question, aim: 1.35},
	{name: "short", title: "short chat, 0.4 KB in, 16 connections", connections: connections, body: question, aim: 1.35},
	{name: "tls", title: "short chat over TLS, 16 connections", connections: connections, body: question, secure: true},
	{name: "chat", title: "plain chat, 2 KB in, 20 tokens out", connections: connections, body: body(false, `"output_tokens":20`)},
	{name: "8k", title: "8 KB prompt", connections: connections, body: prompt(8_000, prose), aim: 1.4},
	{name: "100k", title: "100 KB prompt, prose", connections: 8, body: prompt(100_000, prose), aim: 1.5},
	{name: "100k-markdown", title: "100 KB prompt, Markdown with escapes", connections: 8, body: prompt(100_000, markdown), aim: 1.5},
	{name: "400k", title: "400 KB prompt, prose", connections: 8, body: prompt(400_000, prose), aim: 1.5},
	{name: "400k-markdown", title: "400 KB prompt, Markdown with escapes", connections: 8, body: prompt(400_000, markdown), aim: 1.5},
	{name: "embeddings", title: "2 MB answer, 100 embeddings of 1536", connections: 8, route: "/embeddings", body: embeddings(100, 1536), answer: 1_500_000, aim: 1.5},
	{name: baseName, title: "stream, 1 chunk", connections: connections, chunks: 1, body: body(true, `"output_tokens":1`)},
	{name: "burst", title: "stream, 100 chunks at once", connections: connections, chunks: chunks, body: body(true, `"output_tokens":100`), aim: 1},
	{name: "paced", title: "stream, 100 chunks 4 ms apart", connections: connections / 2, chunks: chunks, body: body(true, `"output_tokens":100,"token_ms":4`), together: true},
}

// baseName is the stream of one chunk: longer ones cost more by their additional chunks.
const baseName = "one"

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	for _, s := range allStreams {
		names = append(names, s.name)
	}
	return append(names, doorsName)
}

// choice is what is measured.
type choice struct {
	workloads []workload
	streams   []streams
	doors     bool
}

// choose finds what a list of names with commas means; an empty one is everything.
func choose(names string) (choice, error) {
	if names == "" {
		return choice{workloads, allStreams, true}, nil
	}
	var c choice
	for name := range strings.SplitSeq(names, ",") {
		load := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		stream := slices.IndexFunc(allStreams, func(s streams) bool { return s.name == name })
		switch {
		case load >= 0:
			c.workloads = append(c.workloads, workloads[load])
		case stream >= 0:
			c.streams = append(c.streams, allStreams[stream])
		case name == doorsName:
			c.doors = true
		default:
			return choice{}, fmt.Errorf("-only: there is no workload %q; there are %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	return c, nil
}

// drive keeps all connections busy until the time is over, waits for running
// requests, and returns the number of requests and of those that broke. A few may:
// if an upstream answers at once, httputil.ReverseProxy can read a request's body to
// its end after the server has closed it, and then closes the connection to the
// upstream in mid-answer. More of them end the run, because refusals would look like
// speed.
func (w *workload) drive(ctx context.Context, t *target, d time.Duration) (all, broken int64, err error) {
	var done, bad atomic.Int64
	until := time.Now().Add(d)
	group, ctx := errgroup.WithContext(ctx)
	for range w.connections {
		group.Go(func() error {
			var answer bytes.Buffer
			for time.Now().Before(until) {
				err := w.once(ctx, t, nextTenant(), &answer)
				if err != nil && bad.Add(1) > mostBroken+done.Load()/100 {
					return fmt.Errorf("%s, %s: %w", t.name, w.title, err)
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	return done.Load(), bad.Load(), err
}

// mostBroken may break in each turn, beside one in a hundred.
const mostBroken = 2

// called counts calls, so that all tenants call in turn, however short the turn of a proxy is.
var called atomic.Int64

func nextTenant() int { return int(called.Add(1) % numTenants) }

// once makes one request and checks that its answer is whole.
func (w *workload) once(ctx context.Context, t *target, tenant int, answer *bytes.Buffer) error {
	at := t.url
	if w.secure && t.secure != "" {
		at = t.secure
	}
	resp, err := post(ctx, t, at, tenant, cmp.Or(w.route, chatRoute), w.body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer.Reset()
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %.300s", resp.StatusCode, answer.Bytes())
	}
	return w.check(answer.Bytes())
}

const chatRoute = "/chat/completions"

func post(ctx context.Context, t *target, at string, tenant int, route, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1"+route, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header["Authorization"] = bearers[tenant]
	req.Header["Content-Type"] = contentType
	return t.client.Do(req)
}

func (w *workload) check(answer []byte) error {
	if w.chunks == 0 {
		if len(answer) < w.answer || !bytes.Contains(answer[max(0, len(answer)-1000):], []byte(`"usage"`)) {
			return fmt.Errorf("the answer is not whole: %.300s", answer)
		}
		return nil
	}
	n := bytes.Count(answer, []byte("data: "))
	if n < w.chunks || !bytes.HasSuffix(answer, []byte("data: [DONE]\n\n")) {
		return fmt.Errorf("the stream is not whole, %d events: … %s", n, answer[max(0, len(answer)-300):])
	}
	return nil
}

var contentType = []string{"application/json"}

var bearers = func() (list [numTenants][]string) {
	for i := range list {
		list[i] = []string{"Bearer " + key(i)}
	}
	return list
}()
