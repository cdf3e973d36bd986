package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// bodies is a world in which a tenant has memory for one megabyte of bodies, of four in all.
func bodies(list ...tenants.Tenant) world {
	return world{
		mock: mock.Config{FirstToken: time.Second}, pool: pool(0, 0, 1000), tenants: list,
		tune: func(c *tenants.Config) {
			c.MaxBody = 1 << 20
			c.BodyMemory = tenants.BodyMemory{Process: 4 << 20, Tenant: 1 << 20}
		},
	}
}

// patient is a tenant whose calls wait.
func patient(name string, wait time.Duration) tenants.Tenant {
	t := tenant(name, 1)
	t.MaxWait = wait
	return t
}

// slowBody sends its text, and then nothing until it is closed.
type slowBody struct {
	text *strings.Reader
	done chan struct{}
	once sync.Once
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.text.Len() > 0 {
		return b.text.Read(p)
	}
	<-b.done
	return 0, io.ErrUnexpectedEOF
}

func (b *slowBody) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// send sends a body of which so many bytes never come. Without a length it is chunked.
func (s *stack) send(tenant, body string, missing int, chunked bool) answer {
	length := int64(len(body))
	if chunked {
		length = -1
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://gateway/v1/chat/completions", nil)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	req.ContentLength = length
	req.Body = io.NopCloser(strings.NewReader(body))
	if missing > 0 {
		slow := &slowBody{text: strings.NewReader(body[:len(body)-missing]), done: make(chan struct{})}
		defer slow.Close()
		req.Body = slow
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	if resp.Close { // net/http takes the header away
		resp.Header.Set("Connection", "close")
	}
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// large is a chat call of so many bytes.
func large(bytes int) string {
	body := chat(false, 5, "")
	return body + strings.Repeat(" ", bytes-len(body))
}

// memory is what bodies have now.
func (s *stack) memory() int64 { return s.sum("llmgov_body_memory_bytes", nil) }

// A tenant that sends many large bodies at the same time, none of which ever ends, has its own memory
// and no more; it is told to come back, and all others are served. Its memory is free again seconds
// after it has stopped sending.
func TestAudit_H5_BodiesThatNeverEnd(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			attacker := tenant("attacker", 1)
			attacker.Concurrency = 2
			s := newStack(t, bodies(attacker, tenant("other", 1)))
			defer s.close()
			const connections = 100
			answers := make(chan answer, connections)
			for range connections {
				go func() { answers <- s.send("attacker", large(900<<10), 1, chunked) }()
			}
			synctest.Wait()
			if n := s.memory(); n > 1<<20+connections<<14 {
				t.Errorf("bodies have %d bytes of memory", n)
			}
			if a := s.send("other", large(900<<10), 0, chunked); a.status != http.StatusOK {
				t.Errorf("another tenant gets %d %s %v", a.status, a.body, a.err)
			}
			refused := 0
			late := 0
			for range connections {
				a := <-answers
				switch e := readError(a.body); {
				case a.status == http.StatusTooManyRequests && e.Code == "rate_limit_exceeded" && e.Type == "concurrency" && a.header.Get("Retry-After") != "":
					refused++
				case a.status == http.StatusRequestTimeout:
					late++
				default:
					t.Errorf("%d %s %v", a.status, a.body, a.err)
				}
			}
			if refused < connections-8 || late == 0 {
				t.Errorf("%d were refused and %d were too slow", refused, late)
			}
			if a := s.send("attacker", large(900<<10), 0, chunked); a.status != http.StatusOK {
				t.Errorf("the tenant itself gets %d %s %v afterwards", a.status, a.body, a.err)
			}
			s.checkIdle()
		})
	}
}

// The process's bound holds when many tenants send at the same time, and is told as such.
func TestAudit_H5_ProcessBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []tenants.Tenant
		for _, name := range strings.Fields("a b c d e f") {
			list = append(list, tenant(name, 1))
		}
		s := newStack(t, bodies(append(list, patient("waiting", time.Minute))...))
		defer s.close()
		answers := make(chan answer, len(list))
		for i := range list {
			go func() { answers <- s.send(list[i].Name, large(1<<20), 1, false) }()
		}
		synctest.Wait()
		if n := s.memory(); n != 3<<20 {
			t.Errorf("bodies have %d bytes of memory, want three quarters of 4 MiB", n)
		}
		if a := s.call(t.Context(), "a", chat(false, 5, "")); a.status != http.StatusOK {
			t.Errorf("a small body gets %d %s", a.status, a.body)
		}
		began := time.Now()
		if a := s.send("waiting", large(1<<20), 0, false); a.status != http.StatusOK || a.header.Get("X-Llmgov-Queue-Ms") == "" {
			t.Errorf("a call that may wait gets %d %s, %v", a.status, a.body, a.header)
		}
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		overloaded := 0
		for range list {
			if a := <-answers; a.status == http.StatusServiceUnavailable && errorCode(a.body) == "overloaded" && a.header.Get("Retry-After") != "" {
				overloaded++
			}
		}
		if overloaded != 3 {
			t.Errorf("%d calls are told that the gateway is overloaded, want 3", overloaded)
		}
		s.checkIdle()
	})
}

// Callers that wait for a slot hold their bodies, and others of the tenant wait for memory, no longer
// than they may in all.
func TestAudit_H5_WaitsInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := patient("acme", 5*time.Second)
		acme.Concurrency = 1
		w := bodies(acme)
		w.mock = mock.Config{FirstToken: 4 * time.Second}
		s := newStack(t, w)
		defer s.close()
		began := time.Now()
		type end struct {
			answer
			after time.Duration
		}
		ends := make(chan end, 4)
		for range 4 {
			go func() {
				a := s.send("acme", large(400<<10), 0, false)
				ends <- end{a, time.Since(began)}
			}()
		}
		served := 0
		for range 4 {
			e := <-ends
			if e.status == http.StatusOK {
				served++
			} else if e.status != http.StatusTooManyRequests || e.after > 6*time.Second {
				t.Errorf("after %s: %d %s", e.after, e.status, e.body)
			}
		}
		if served < 2 {
			t.Errorf("%d were served, want the first, and the one that waited 4 s", served)
		}
		s.checkIdle()
	})
}

// A client that sends at a moderate rate is served, one that drips is not.
func TestAudit_H5_SlowBodies(t *testing.T) {
	for _, c := range []struct {
		every  time.Duration // for 16 KiB
		status int
	}{{500 * time.Millisecond, http.StatusOK}, {2 * time.Second, http.StatusRequestTimeout}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(t, bodies(tenant("acme", 1)))
			defer s.close()
			body := large(512 << 10)
			r, w := io.Pipe()
			go func() {
				for ; body != ""; body = body[16<<10:] {
					if _, err := io.WriteString(w, body[:16<<10]); err != nil {
						return
					}
					time.Sleep(c.every)
				}
				w.Close()
			}()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions", r)
			req.Header.Set("Authorization", "Bearer acme")
			req.ContentLength = 512 << 10
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("16 KiB every %s: %d, want %d", c.every, resp.StatusCode, c.status)
			}
			r.Close()
			time.Sleep(5 * time.Second) // until both sides have noticed
			s.checkIdle()
		})
	}
}

// A body that waits for memory while it grows is not taken for one whose client is slow.
func TestAudit_H5_GrowingBodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bodies(patient("acme", time.Minute))
		w.mock = mock.Config{FirstToken: 30 * time.Second}
		s := newStack(t, w)
		defer s.close()
		first := make(chan answer, 1)
		go func() { first <- s.send("acme", large(850<<10), 0, false) }()
		synctest.Wait()
		began := time.Now()
		a := s.send("acme", large(900<<10), 0, true)
		if took := time.Since(began); a.status != http.StatusOK || took < 20*time.Second {
			t.Errorf("after %s: %d %s", took, a.status, a.body)
		}
		if a := <-first; a.status != http.StatusOK {
			t.Errorf("the first: %d %s", a.status, a.body)
		}
		s.checkIdle()
	})
}

// A request of unknown length ends its connection: beside it there may have been a Content-Length, by
// which another server may have found a second request in the body.
func TestAudit_L10_ChunkedEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, bodies(tenant("acme", 1)))
		defer s.close()
		if a := s.send("acme", large(1000), 0, true); a.status != http.StatusOK || a.header.Get("Connection") != "close" {
			t.Errorf("chunked: %d, Connection: %q", a.status, a.header.Get("Connection"))
		}
		if a := s.send("acme", large(1000), 0, false); a.status != http.StatusOK || a.header.Get("Connection") != "" {
			t.Errorf("with a length: %d, Connection: %q", a.status, a.header.Get("Connection"))
		}
		s.checkIdle()
	})
}
