package doors

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

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
