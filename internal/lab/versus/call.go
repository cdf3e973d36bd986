package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// chat is the body of a call, with a prompt of about so many bytes. Its hook is for the model server alone.
func chat(promptBytes, output int, stream bool, hook string) string {
	const line = "the quick brown fox jumps over the lazy dog "
	prompt := strings.Repeat(line, promptBytes/len(line)+1)[:max(promptBytes, 1)]
	content, _ := json.Marshal(prompt)
	usage := ""
	if stream {
		usage = `"stream_options":{"include_usage":true},`
	}
	return fmt.Sprintf(`{"model":"gpt-4o","max_tokens":%d,"stream":%t,%s"messages":[{"role":"user","content":%s}],"mock":{%s}}`,
		output, stream, usage, content, hook)
}

// post sends a call.
func post(ctx context.Context, client *http.Client, url, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// status makes a call, reads its answer to the end, and returns its status; 0 if it broke off.
func (g *gateway) status(ctx context.Context, key, body string) int {
	resp, err := post(ctx, g.client, g.url, key, body)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

// whole makes a call that must be answered.
func whole(ctx context.Context, client *http.Client, url, key, body string) error {
	resp, err := post(ctx, client, url, key, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(answer[max(0, len(answer)-2000):], []byte(`"usage"`)) {
		return fmt.Errorf("status %d: %.500s", resp.StatusCode, answer)
	}
	return nil
}

// atOnce does things by a number of workers.
func atOnce(n, workers int, do func(i int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

// statuses counts the answers of calls that are made by a number of workers.
func statuses(n, workers int, call func(i int) int) map[int]int {
	var mu sync.Mutex
	count := map[int]int{}
	atOnce(n, workers, func(i int) {
		status := call(i)
		mu.Lock()
		count[status]++
		mu.Unlock()
	})
	return count
}

// readEvents reads a stream up to a number of events with text, and reports whether it had as many.
func readEvents(body io.Reader, events int) bool {
	lines := bufio.NewReader(body)
	for events > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.HasPrefix(line, "data: {") && strings.Contains(line, `"content":"`) {
			events--
		}
	}
	return true
}
