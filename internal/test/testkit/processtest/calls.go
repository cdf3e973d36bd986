package processtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// client keeps connections for many callers at once.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}

// CloseIdleConnections closes the connections on which no call runs.
func CloseIdleConnections() { client.CloseIdleConnections() }

// Answer is an answer that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Into reads an answer in JSON.
func (a Answer) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Body), v); err != nil {
		t.Fatalf("%v: %d %s", err, a.Status, a.Body)
	}
}

// Chat is the body of a chat of "hello", with further fields.
func Chat(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hello"}],` + more + `}`
}

// Send sends a request with a key, which may be "".
func Send(ctx context.Context, method, url, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return client.Do(req)
}

// Try sends a request, and reads its answer.
func Try(ctx context.Context, method, url, key, body string) (Answer, error) {
	resp, err := Send(ctx, method, url, key, body)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}

// Ask sends a request. Without an answer it reports an error, and returns an empty one. Any goroutine may ask.
func Ask(t testing.TB, method, url, key, body string) Answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), Patience)
	defer stop()
	answer, err := Try(ctx, method, url, key, body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	return answer
}

// Chat asks for an answer of five tokens.
func (p *Process) Chat(t testing.TB, key string) Answer {
	t.Helper()
	return Ask(t, http.MethodPost, p.Data+"/v1/chat/completions", key, Chat(`"max_tokens":5`))
}

// Scrape reads its metrics.
func (p *Process) Scrape(t testing.TB) string {
	t.Helper()
	return Ask(t, http.MethodGet, p.Admin+"/metrics", "", "").Body
}

// Sum adds up the series of a metric that have all of these labels, each as `name="value"`.
func Sum(metrics, name string, labels ...string) (sum float64) {
	for line := range strings.Lines(metrics) {
		set, value, found := series(line, name)
		if !found {
			continue
		}
		fits := true
		for _, label := range labels {
			fits = fits && strings.Contains(set, label)
		}
		if fits {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			sum += n
		}
	}
	return sum
}

// series splits a line of a metric into its labels, if there are any, and its value.
func series(line, name string) (labels, value string, found bool) {
	rest, is := strings.CutPrefix(line, name)
	switch {
	case !is:
		return "", "", false
	case strings.HasPrefix(rest, "{"):
		return strings.Cut(rest[1:], "} ")
	case strings.HasPrefix(rest, " "):
		return "", rest[1:], true
	}
	return "", "", false
}
