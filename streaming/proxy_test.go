package streaming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	openai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// proxy puts a Body between a model server and a client of go-openai, as a gateway does.
func proxy(t *testing.T, upstream http.HandlerFunc, opt Options) *openai.Client {
	back := httptest.NewServer(upstream)
	target := testkit.Must(url.Parse(back.URL))(t)
	transport := &http.Transport{DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = NewBody(resp.Body, opt)
			return nil
		},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A server closes the body when the answer begins; a transport that still reads it then gives up its
		// connection, and the answer with it. So it is read before, as the gateway does.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	client := &http.Transport{}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		front.Close()
		transport.CloseIdleConnections()
		back.Close()
	})
	config := openai.DefaultConfig("key")
	config.BaseURL = front.URL
	config.HTTPClient = &http.Client{Transport: client}
	return openai.NewClientWithConfig(config)
}

func serve(pieces ...[]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range pieces {
			_, _ = w.Write(p)
			w.(http.Flusher).Flush()
		}
	}
}

func TestThroughReverseProxy(t *testing.T) {
	const half = "data: {\"id\":\"x\",\"choi"
	tests := []struct {
		name   string
		pieces [][]byte
		chunks int
		err    string
		cause  Cause
	}{
		{"whole", hundred(), 100, "EOF", Completed},
		{"cut", append(hundred()[:5], []byte(half)), 5, "upstream broke off", Truncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan Result, 2)
			client := proxy(t, serve(tt.pieces...), Options{
				WithholdUsage: true, ErrorEvent: errorEvent, End: func(r Result) { ended <- r },
			})
			stream, err := client.CreateChatCompletionStream(t.Context(), openai.ChatCompletionRequest{Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			chunks := 0
			for err == nil {
				var resp openai.ChatCompletionStreamResponse
				resp, err = stream.Recv()
				if err == nil {
					chunks++
					if len(resp.Choices) != 1 || resp.Usage != nil {
						t.Errorf("chunk %d: %+v", chunks, resp)
					}
				}
			}
			if chunks != tt.chunks || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the client got %d chunks and %v; want %d and %s", chunks, err, tt.chunks, tt.err)
			}
			if res := <-ended; res.Cause != tt.cause || res.Deltas != int64(tt.chunks) || res.Reported != (tt.cause == Completed) {
				t.Errorf("result %+v", res)
			}
		})
	}
}

// TestClientGoneThroughReverseProxy: a client that leaves ends the stream and the upstream request.
func TestClientGoneThroughReverseProxy(t *testing.T) {
	ended := make(chan Result, 2)
	upstreamGone := make(chan struct{})
	client := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		serve(hundred()[:3]...)(w, r)
		<-r.Context().Done()
		close(upstreamGone)
	}, Options{End: func(r Result) { ended <- r }})
	ctx, leave := context.WithCancel(t.Context())
	stream := testkit.Must(client.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{Stream: true}))(t)
	defer stream.Close()
	for range 3 {
		testkit.Must(stream.Recv())(t)
	}
	leave()
	if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after leaving: %v", err)
	}
	<-upstreamGone
	if res := <-ended; res.Cause != ClientGone || res.Deltas != 3 {
		t.Errorf("result %+v", res)
	}
}
