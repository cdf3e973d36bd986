package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// breaks are the ways in which an upstream breaks an answer off.
var breaks = []string{"cut", "silent", "never", "endless"}

// brokenCalls are calls to objects that read all of an answer, or pass it on.
var brokenCalls = []string{"GET /v1/files/{file}/content", "GET /v1/files/{file}", "GET /v1/files", "POST /v1/vector_stores", "DELETE /v1/vector_stores/{vector_store}"}

// Whoever breaks a call to objects off, its slot is free again, once. Each call is of a tenant of its own, so that all of them
// run out of patience at the same time.
func TestObjectCallsEndOnce(t *testing.T) {
	caller := func(how, call int) string { return fmt.Sprintf("acme%d-%d", how, call) }
	var list []tenants.Tenant
	for how := range breaks {
		for call := range brokenCalls {
			list = append(list, sockets.Tenant(caller(how, call), func(t *tenants.Tenant) { sockets.Granted(t); t.Concurrency = 1 }))
		}
	}
	var model *mock.Server
	s := sockets.New(t, sockets.World{
		Tenants:  list,
		Config:   func(c *tenants.Config) { c.Timeouts.StreamIdle = time.Second },
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
	var all sync.WaitGroup
	for i, how := range breaks {
		for j, call := range brokenCalls {
			if how == "endless" && j > 0 {
				continue // bounded by maxAnswer
			}
			tenant := caller(i, j)
			o := makeAll(s, tenant)
			all.Go(func() {
				breakOff(s, tenant, how, o.fill(call))
				if status, text := s.SendAs(tenant, "GET", "/v1/batches", "", ""); status != 200 {
					t.Errorf("after %s that is %s: %d %s", call, how, status, text)
				}
			})
		}
	}
	all.Wait()
	// A client that stops in the midst of its upload holds nothing.
	conn := testkit.Must(net.Dial("tcp", s.Data.Listener.Addr().String()))(t)
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+sockets.Key(list[0].Name)+"\r\nContent-Type: "+formType+"\r\nContent-Length: 1000\r\n\r\n--b")
	if status, text := s.SendAs(list[0].Name, "GET", "/v1/files", "", ""); status != 200 {
		t.Errorf("while somebody uploads: %d %s", status, text)
	}
}

// breakOff makes a call that its upstream breaks off, or its caller leaves, and waits until it is over.
func breakOff(s *sockets.Stack, tenant, how, call string) {
	method, path, _ := strings.Cut(call, " ")
	body := ""
	if method == http.MethodPost {
		body = "{}"
	}
	ctx, leave := context.WithTimeout(s.T.Context(), sockets.Patience)
	defer leave()
	r := s.Request(method, path, body, "User-Agent", "test-"+how, "Authorization", "Bearer "+sockets.Key(tenant)).WithContext(ctx)
	if resp, err := s.Client.Do(r); err == nil {
		if how == "endless" {
			_, _ = io.ReadFull(resp.Body, make([]byte, 1<<20))
			leave()
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	} else if ctx.Err() != nil {
		s.T.Errorf("%s that is %s has no end", call, how)
	}
	sockets.Eventually(s.T, sockets.Patience, call+" of "+tenant+" is over", func() bool {
		for _, ts := range s.Governor.State().Tenants {
			if ts.Config.Name == tenant {
				return ts.Running == 0
			}
		}
		return false
	})
}
