package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	chunks     = 100
	maxTokens  = 4096 // what the load asks for, over the clamp
	promptSize = 1800 // a body of about 2 KB
	// maxConnections bounds the connections of any workload.
	maxConnections = 64
)

// workload is one kind of request.
type workload struct {
	name, title string
	connections int
	chunks      int // 0: not a stream
	body        string
}

var workloads = []workload{
	{name: "chat", title: "plain chat, 2 KB in, 20 tokens out", connections: connections, body: body(20, 0, false)},
	{name: "burst", title: "stream, 100 chunks at once", connections: connections, chunks: chunks, body: body(chunks, 0, true)},
	{name: "paced", title: "stream, 100 chunks 4 ms apart", connections: 2 * connections, chunks: chunks, body: body(chunks, 4, true)},
}

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

func choose(name string) ([]workload, error) {
	if name == "" {
		return workloads, nil
	}
	for _, w := range workloads {
		if w.name == name {
			return []workload{w}, nil
		}
	}
	return nil, fmt.Errorf("there is no workload %q", name)
}

// body is a chat request. Its mock member, which only the model server reads,
// makes the answer the same however it was clamped.
func body(tokens, tokenMS int, stream bool) string {
	prompt := strings.Repeat("the quick brown fox jumps over the lazy dog ", promptSize/44)
	return fmt.Sprintf(`{"model":"gpt-4o-mini","temperature":0.7,"max_tokens":%d,"stream":%t,"user":"u-1",`+
		`"messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":%q}],`+
		`"mock":{"output_tokens":%d,"token_ms":%d}}`, maxTokens, stream, prompt, tokens, tokenMS)
}

// drive keeps all connections busy until the time is over, lets what runs come
// to its end, and returns how many requests that were, and how many of them
// broke. A few may: where an upstream answers at once, httputil.ReverseProxy can
// read a request's body to its end after the server has closed it, and then
// closes the connection to the upstream in mid-answer. More of them end the run,
// lest refusals pass for speed.
func (w *workload) drive(ctx context.Context, t *target, d time.Duration) (all, broken int64, err error) {
	var next, done, bad atomic.Int64
	until := time.Now().Add(d)
	group, ctx := errgroup.WithContext(ctx)
	for range w.connections {
		group.Go(func() error {
			var answer bytes.Buffer
			for time.Now().Before(until) {
				tenant := int(next.Add(1) % numTenants)
				err := w.once(ctx, t, tenant, &answer)
				if err != nil && bad.Add(1) > 5+done.Load()/500 {
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

// once makes one request and checks that its answer is whole.
func (w *workload) once(ctx context.Context, t *target, tenant int, answer *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", strings.NewReader(w.body))
	if err != nil {
		return err
	}
	req.Header["Authorization"] = bearers[tenant]
	req.Header["Content-Type"] = contentType
	resp, err := t.client.Do(req)
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

func (w *workload) check(answer []byte) error {
	if w.chunks == 0 {
		if !bytes.Contains(answer, []byte(`"usage"`)) {
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
