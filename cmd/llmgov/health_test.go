package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The data side answers /healthz and nothing else in place of the gateway, and tells nobody why it is not ready.
func TestWithHealth(t *testing.T) {
	var problem error
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := withHealth(next, func() error { return problem })
	ask := func(method, path string) (int, string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, http.NoBody))
		body, _ := io.ReadAll(rec.Body)
		return rec.Code, string(body)
	}
	if code, _ := ask("HEAD", "/healthz"); code != http.StatusOK {
		t.Errorf("HEAD: %d", code)
	}
	for _, other := range [][2]string{{"POST", "/healthz"}, {"GET", "/healthz/x"}, {"GET", "/v1/models"}} {
		if code, _ := ask(other[0], other[1]); code != http.StatusTeapot {
			t.Errorf("%v: %d, want what the gateway answers", other, code)
		}
	}
	problem = errors.New("state_dir /secret cannot be written")
	if code, body := ask("GET", "/healthz"); code != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("not ready: %d %q", code, body)
	}
}
