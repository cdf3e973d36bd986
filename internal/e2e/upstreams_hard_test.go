package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// What a provider declares is lowered by the headroom as the pool's own limit is: far
// less than was configured is not next to nothing.
func TestUpstreams_DeclaredFarBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{mock: mock.Config{TPM: 8000}, pool: pool(1_000_000, 0, 0), tenants: []tenants.Tenant{tenant("a", 1)}})
		defer s.close()
		for range 3 {
			s.call(t.Context(), "a", chat(false, 5, ""))
		}
		if got := s.gov.State().Pools[0].Axes[escrow.Tokens].Limit; got != 7920 {
			t.Errorf("of 8000 declared tokens a minute %d are handed out, want 1 %% less", got)
		}
		s.checkIdle()
	})
}

// A 429 whose body does not come takes nothing from the call, which goes elsewhere, nor
// from whom it goes to.
func TestUpstreams_RefusalWithoutItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newMoody(t, mock.Config{})
		stuck.become(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_ = http.NewResponseController(w).Flush()
			sleeps(w, r)
		})
		s := newStack(t, world{pool: behind(1, 100), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": stuck}})
		defer s.close()
		for range 6 {
			began := time.Now()
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 || time.Since(began) > 10*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), ans.status, ans.body)
			}
			time.Sleep(time.Minute)
		}
		if v := s.snapshot().Pools[0].Upstreams[0]; v.State != "up" {
			t.Errorf("the other upstream is %s", v.State)
		}
		s.checkIdle()
	})
}

// Where one upstream is gone and the other asks for a pause, who may wait waits for it.
func TestUpstreams_OneIsBusyOneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := newMoody(t, mock.Config{})
		who := tenant("a", 1)
		who.MaxWait = time.Minute
		p := behind(1, 1)
		p.Upstreams[0].Name = "gone"
		p.TPM = 1_000_000
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": busy, "gone": nil}})
		defer s.close()
		for range 20 { // the one that is gone is found out
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
		}
		busy.become(says(429, "Retry-After", "20"))
		before := busy.calls.Load()
		var all sync.WaitGroup
		began := time.Now()
		for range 10 {
			all.Go(func() {
				if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
					t.Errorf("after %v: %d %s", time.Since(began), ans.status, ans.body)
				}
			})
		}
		time.Sleep(10 * time.Second)
		busy.become(nil)
		all.Wait()
		if d := time.Since(began); d < 20*time.Second || d > 40*time.Second {
			t.Errorf("served after %v", d)
		}
		if n := busy.calls.Load() - before; n > 20 {
			t.Errorf("10 calls made %d tries", n)
		}
		s.checkIdle()
	})
}

// A probe that takes its time, as long answers do, shuts nobody out meanwhile.
func TestUpstreams_SlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		s := newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": up}})
		defer s.close()
		up.become(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for range 5 {
			s.call(t.Context(), "a", chat(false, 5, ""))
		}
		up.become(nil)
		time.Sleep(5 * time.Second)
		var slow sync.WaitGroup
		slow.Go(func() {
			if ans := s.call(t.Context(), "a", chat(false, 5, `,"mock":{"first_token_ms":100000}`)); ans.status != 200 {
				t.Errorf("%d %s", ans.status, ans.body)
			}
		})
		time.Sleep(15 * time.Second)
		if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
			t.Errorf("15 s into a slow probe: %d %s", ans.status, ans.body)
		}
		slow.Wait()
		s.checkIdle()
	})
}

// Calls of one tenant that last too long shut out nobody whose calls are answered.
func TestUpstreams_LateAnswersShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{pool: pool(0, 0, 100), tenants: []tenants.Tenant{tenant("a", 1), tenant("b", 1)}})
		defer s.close()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					s.call(ctx, "a", chat(false, 5, `,"mock":{"first_token_ms":6000000}`))
					time.Sleep(time.Second)
				}
			})
		}
		var refused atomic.Int64
		for range 120 {
			time.Sleep(5 * time.Second)
			if ans := s.call(t.Context(), "b", chat(false, 5, "")); ans.status != 200 {
				refused.Add(1)
			}
		}
		stop()
		all.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d of 120 calls of the other tenant were refused", n)
		}
		s.checkIdle()
	})
}

// paused is a gateway whose only upstream has asked for a pause of 30 s, with a tenant who waits for
// a minute.
func paused(t *testing.T) (*stack, *moody) {
	t.Helper()
	up := newMoody(t, mock.Config{})
	up.become(says(429, "Retry-After", "30"))
	who := tenant("a", 1)
	who.MaxWait = time.Minute
	return newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": up}}), up
}

// Of a call that was sent back into the queue another with its Idempotency-Key is told
// that it waits.
func TestUpstreams_IdempotencyKeyOfACallThatWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, up := paused(t)
		defer s.close()
		post := func() (int, string, string) {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway/v1/chat/completions", strings.NewReader(chat(false, 5, "")))
			req.Header.Set("Authorization", "Bearer a")
			req.Header.Set("Idempotency-Key", "k")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Error(err)
				return 0, "", ""
			}
			return resp.StatusCode, resp.Header.Get("Retry-After"), readAll(resp)
		}
		var first sync.WaitGroup
		first.Go(func() {
			if status, _, text := post(); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
		time.Sleep(time.Second)
		up.become(nil)
		if status, after, text := post(); status != 409 || after != "29" && after != "30" {
			t.Errorf("%d, come back in %q: %s", status, after, text)
		}
		first.Wait()
		s.checkIdle()
	})
}

// Who goes away while the upstreams that work pause has cancelled; no upstream has failed.
func TestUpstreams_GoneWhileAllPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := newMoody(t, mock.Config{})
		who := tenant("a", 1)
		who.MaxWait = time.Minute
		p := behind(1, 1)
		p.Upstreams[0].Name = "gone"
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": busy, "gone": nil}})
		defer s.close()
		for range 20 { // the one that is gone is found out
			s.call(t.Context(), "a", chat(false, 5, ""))
		}
		busy.become(says(429, "Retry-After", "30"))
		ctx, leave := context.WithTimeout(t.Context(), 12*time.Second)
		defer leave()
		var all sync.WaitGroup
		for range 10 { // they are let in when that may be probed, and wait again
			all.Go(func() { s.call(ctx, "a", chat(false, 5, "")) })
		}
		all.Wait()
		synctest.Wait()
		if n := s.sum("llmgov_requests_total", map[string]string{"tenant": "a", "outcome": "cancelled"}); n != 10 {
			t.Errorf("%d of 10 calls are counted as cancelled", n)
		}
		s.checkIdle()
	})
}

// Of two that ask for a pause the shorter is waited for, and told to who may not wait,
// whichever was asked last.
func TestUpstreams_TheShorterPause(t *testing.T) {
	for _, pauses := range [][2]string{{"3", "60"}, {"60", "3"}} {
		synctest.Test(t, func(t *testing.T) {
			a := newMoody(t, mock.Config{})
			b := newMoody(t, mock.Config{})
			a.become(says(429, "Retry-After", pauses[0]))
			b.become(says(429, "Retry-After", pauses[1]))
			who := tenant("a", 1)
			who.MaxWait = 10 * time.Second
			p := behind(1, 1)
			p.Upstreams[0].Name = "up1"
			p.Upstreams[1].Name = "up2"
			s := newStack(t, world{pool: p, tenants: []tenants.Tenant{who, tenant("b", 1)}, others: map[string]http.Handler{"up1": a, "up2": b}})
			defer s.close()
			if ans := s.call(t.Context(), "b", chat(false, 5, "")); ans.status != 429 || ans.header.Get("Retry-After") != "3" {
				t.Errorf("who does not wait gets %d, to come back in %s", ans.status, ans.header.Get("Retry-After"))
			}
			time.Sleep(10 * time.Minute)
			began := time.Now()
			time.AfterFunc(time.Second, func() { a.become(nil); b.become(nil) })
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 || time.Since(began) > 4*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), ans.status, ans.body)
			}
			s.checkIdle()
		})
	}
}

// Who waits for an upstream that a reload replaces goes to the one that is there then;
// but not with what refers to an object there.
func TestUpstreams_ReplacedWhileItPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newMoody(t, mock.Config{})
		anew := newMoody(t, mock.Config{})
		who := tenant("a", 1)
		who.MaxWait = time.Minute
		w := world{pool: only("up1"), tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": old, "up2": anew}}
		s := newStack(t, w)
		defer s.close()
		ans := s.callTo(t.Context(), "/responses", "a", `{"model":"m","input":"x","max_output_tokens":5}`)
		_, rest, _ := strings.Cut(ans.body, `"id":"resp`)
		id, _, ok := strings.Cut(rest, `"`)
		if ans.status != 200 || !ok {
			t.Fatalf("%d %s", ans.status, ans.body)
		}
		old.become(says(429, "Retry-After", "20"))
		var all sync.WaitGroup
		for _, stream := range []bool{false, true} {
			all.Go(func() {
				if ans := s.call(t.Context(), "a", chat(stream, 5, "")); ans.status != 200 {
					t.Errorf("%d %s", ans.status, ans.body)
				}
			})
		}
		all.Go(func() {
			body := `{"model":"m","input":"x","max_output_tokens":5,"previous_response_id":"resp` + id + `"}`
			if ans := s.callTo(t.Context(), "/responses", "a", body); ans.status != 429 {
				t.Errorf("what refers to an object of the old one: %d %s", ans.status, ans.body)
			}
		})
		time.Sleep(5 * time.Second)
		w.pool = only("up2")
		snap, err := tenants.Build(w.config(), w.tenants)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.gateway.Apply(snap); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		all.Wait()
		if d, n := time.Since(began), anew.calls.Load(); d > 10*time.Second || n != 2 {
			t.Errorf("%v after the reload the new one has got %d calls, want 2", d, n)
		}
		s.checkIdle()
	})
}

// Who looks after old responses before it makes more loses patience soon, which says
// nothing of the upstream.
func TestUpstreams_ImpatienceIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		up.become(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				sleeps(w, r)
				return
			}
			up.mock.ServeHTTP(w, r)
		})
		s := newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": up}})
		defer s.close()
		for range 40 {
			if ans := s.callTo(t.Context(), "/responses", "a", `{"model":"m","input":"x","background":true}`); ans.status != 200 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
		}
		if n := s.sum("llmgov_upstream_tries_total", map[string]string{"outcome": "silent"}); n > 0 {
			t.Errorf("%d tries are taken for failures", n)
		}
		if n := s.sum("llmgov_upstream_tries_total", map[string]string{"outcome": "abandoned"}); n == 0 {
			t.Error("none was given up")
		}
		s.checkIdle()
	})
}

// Who may wait waits as long as that, though it is told to wait a moment again and again.
func TestUpstreams_ManyShortPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMoody(t, mock.Config{})
		up.become(says(429, "Retry-After-Ms", "200"))
		who := tenant("a", 1)
		who.MaxWait = 30 * time.Second
		s := newStack(t, world{pool: only("up1"), tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": up}})
		defer s.close()
		time.AfterFunc(10*time.Second, func() { up.become(nil) })
		if ans := s.call(t.Context(), "a", chat(true, 5, "")); ans.status != 200 {
			t.Errorf("%d %s", ans.status, ans.body)
		}
		s.checkIdle()
	})
}

// An upstream that is gone for long is missing for long, as long as calls tell so.
func TestUpstreams_GoneForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := behind(1, 1)
		p.Upstreams[0].Name = "gone"
		s := newStack(t, world{pool: p, tenants: []tenants.Tenant{tenant("a", 1)}, others: map[string]http.Handler{"up1": newMoody(t, mock.Config{}), "gone": nil}})
		defer s.close()
		for i := range 20 * 60 {
			if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 200 {
				t.Fatalf("%d %s", ans.status, ans.body)
			}
			if ratio := s.snapshot().Pools[0].RateRatio; i > 20 && ratio != 0.5 {
				t.Fatalf("after %d s a part of %v is handed out", i, ratio)
			}
			time.Sleep(time.Second)
		}
		s.checkIdle()
	})
}

// Who waits for a pause to end is answered when the gateway drains.
func TestUpstreams_DrainWhileAllPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := paused(t)
		defer s.close()
		began := time.Now()
		time.AfterFunc(5*time.Second, s.gov.Drain)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second) // the first is sent back, the others wait behind it
				if ans := s.call(t.Context(), "a", chat(false, 5, "")); ans.status != 503 && (i > 0 || ans.status != 429) || ans.header.Get("Retry-After") == "" {
					t.Errorf("call %d: %d %v %s", i, ans.status, ans.header, ans.body)
				}
			})
		}
		all.Wait()
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("answered after %v", d)
		}
		s.checkIdle()
	})
}

// What is sent again is sent whole, whatever of it the first upstream has read: also to
// the same one after a pause, and what is a form.
func TestUpstreams_BodiesAreSentWhole(t *testing.T) {
	text := strings.Repeat("a long story ", 100_000)
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + text + "\r\n--x--\r\n"
	for path, body := range map[string]string{"/audio/transcriptions": form, "/embeddings": `{"model":"m","input":"` + text + `"}`} {
		for name, p := range map[string]tenants.Pool{"elsewhere": behind(1, 100), "again": only("up1")} {
			for _, reads := range []int64{0, 1000, 1 << 30} {
				t.Run(fmt.Sprint(path, " ", name, " ", reads), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						up := newMoody(t, mock.Config{})
						whole := func(w http.ResponseWriter, r *http.Request) {
							got, err := io.ReadAll(r.Body)
							if err != nil || r.ContentLength != int64(len(got)) {
								t.Errorf("%d bytes arrived (%v, announced %d)", len(got), err, r.ContentLength)
							}
							if body == form { // which is written anew
								boundary := strings.TrimPrefix(r.Header.Get("Content-Type"), "multipart/form-data; boundary=")
								got = bytes.ReplaceAll(bytes.Replace(got, []byte("Content-Type: application/octet-stream\r\n"), nil, 1), []byte("--"+boundary), []byte("--x"))
							}
							if string(got) != body {
								t.Errorf("%d of %d bytes arrived", len(got), len(body))
							}
							_, _ = io.WriteString(w, `{"text":"ok","usage":{"prompt_tokens":1,"total_tokens":1}}`)
						}
						up.become(func(w http.ResponseWriter, r *http.Request) {
							_, _ = io.CopyN(io.Discard, r.Body, reads)
							up.become(whole)
							says(429, "Retry-After", "1")(w, r)
						})
						other := newMoody(t, mock.Config{})
						other.become(whole)
						p.Upstreams[0].Name = map[string]string{"elsewhere": "up2", "again": "up1"}[name]
						who := tenant("a", 1)
						who.MaxWait = 10 * time.Second
						s := newStack(t, world{pool: p, tenants: []tenants.Tenant{who}, others: map[string]http.Handler{"up1": up, "up2": other}})
						defer s.close()
						kind := "application/json"
						if body == form {
							kind = "multipart/form-data; boundary=x"
						}
						if ans := s.callTo(t.Context(), path, "a", body, "Content-Type", kind); ans.status != 200 {
							t.Errorf("%d %s", ans.status, ans.body)
						}
						if n := up.calls.Load() + other.calls.Load(); n != 2 {
							t.Errorf("%d tries", n)
						}
						s.checkIdle()
						time.Sleep(time.Second) // a server that has not read all closes slowly
					})
				})
			}
		}
	}
}
