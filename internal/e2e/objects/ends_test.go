package objects

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// Whoever breaks a call to objects off, its slot is free again, once.
func TestObjectCallsEndOnce(t *testing.T) {
	var model *mock.Server
	s := sockets.New(t, sockets.World{
		Tenants:  []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { sockets.Granted(t); t.Concurrency = 1 })},
		Config:   func(c *tenants.Config) { c.Timeouts.StreamIdle = 300 * time.Millisecond },
		MockInto: &model,
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			how := ""
			if i := strings.Index(r.Header.Get("User-Agent"), "test-"); i >= 0 {
				how = r.Header.Get("User-Agent")[i+5:]
			}
			switch how {
			case "cut":
				w.Header().Set("Content-Length", "5000")
				_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
				panic(http.ErrAbortHandler)
			case "silent":
				_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case "never":
				panic(http.ErrAbortHandler)
			case "endless":
				for r.Context().Err() == nil {
					if _, err := w.Write(bytes.Repeat([]byte("a"), 1<<16)); err != nil {
						return
					}
				}
			default:
				model.ServeHTTP(w, r)
			}
		}),
	})
	o := makeAll(s, "acme")
	for _, how := range []string{"cut", "silent", "never", "endless"} {
		for _, call := range []string{"GET /v1/files/{file}/content", "GET /v1/files/{file}", "GET /v1/files", "POST /v1/vector_stores", "DELETE /v1/vector_stores/{vector_store}"} {
			method, path, _ := strings.Cut(call, " ")
			if how == "endless" && path != "/v1/files/{file}/content" {
				continue // bounded by maxAnswer
			}
			body := ""
			if method == "POST" {
				body = "{}"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			r := s.Request(method, o.fill(path), body, "User-Agent", "test-"+how).WithContext(ctx)
			if resp, err := s.Client.Do(r); err == nil {
				if how == "endless" {
					_, _ = io.ReadFull(resp.Body, make([]byte, 1<<20))
					cancel()
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			cancel()
			s.WaitIdle()
			if status, text := s.SendAs("acme", "GET", "/v1/batches", "", ""); status != 200 {
				t.Fatalf("after %s that is %s: %d %s", call, how, status, text)
			}
		}
	}
	// A client that stops in the midst of its upload holds nothing.
	conn, err := net.Dial("tcp", s.Data.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+sockets.Key("acme")+"\r\nContent-Type: "+formType+"\r\nContent-Length: 1000\r\n\r\n--b")
	if status, text := s.SendAs("acme", "GET", "/v1/files", "", ""); status != 200 {
		t.Errorf("while somebody uploads: %d %s", status, text)
	}
}
