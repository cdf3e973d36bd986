package mock

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// sink is a ResponseWriter that costs nothing, so that the server's own cost shows.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) FlushError() error           { return nil }

// inProcess returns a function that serves body once.
func inProcess(tb testing.TB, cfg Config, body string) func() {
	s := mustNew(tb, cfg)
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	reader := strings.NewReader(body)
	r.Body = io.NopCloser(reader)
	w := &sink{http.Header{}}
	return func() {
		reader.Reset(body)
		clear(w.h)
		s.ServeHTTP(w, r)
	}
}

// TestAllocations: a chunk costs none, and a call only its headers and the copy of its body.
func TestAllocations(t *testing.T) {
	plain := testkit.Allocs(t, 500, inProcess(t, Config{}, chatBody("")))
	if plain > 14 {
		t.Errorf("a plain call allocates %d times, want at most 14", plain)
	}
	few := testkit.Allocs(t, 100, inProcess(t, Config{}, chatBody(`"stream":true,"max_tokens":10`)))
	many := testkit.Allocs(t, 100, inProcess(t, Config{}, chatBody(`"stream":true,"max_tokens":1000`)))
	if many > few+1 {
		t.Errorf("990 more chunks allocate %d times", many-few)
	}
}
