package upstreams

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
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// What a provider declares is lowered by the headroom as the pool's own limit is: far
// less than was configured is not next to nothing.
func TestUpstreams_DeclaredFarBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Mock: mock.Config{TPM: 8000}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		for range 3 {
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		}
		if got := s.Governor.State().Pools[0].Axes[escrow.Tokens].Limit; got != 7920 {
			t.Errorf("of 8000 declared tokens a minute %d are handed out, want 1 %% less", got)
		}
	})
}

// A 429 whose body does not come takes nothing from the call, which goes elsewhere, nor
// from whom it goes to.
func TestUpstreams_RefusalWithoutItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := harness.NewUpstream(t, mock.Config{})
		stuck.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_ = http.NewResponseController(w).Flush()
			harness.Silence(w, r)
		})
		s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": stuck}})
		for range 6 {
			began := time.Now()
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 200 || time.Since(began) > 10*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), ans.Status, ans.Body)
			}
			time.Sleep(time.Minute)
		}
		if v := snapshot(s).Pools[0].Upstreams[0]; v.State != "up" {
			t.Errorf("the other upstream is %s", v.State)
		}
	})
}

// Where one upstream is gone and the other asks for a pause, who may wait waits for it.
func TestUpstreams_OneIsBusyOneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := harness.NewUpstream(t, mock.Config{})
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		p := harness.PoolOf(1, 1)
		p.Upstreams[0].Name = "gone"
		p.TPM = 1_000_000
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": busy, "gone": nil}})
		for range 20 { // the one that is gone is found out
			s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
		}
		busy.AnswerWith(harness.Status(429, "Retry-After", "20"))
		before := busy.Calls.Load()
		var all sync.WaitGroup
		began := time.Now()
		for range 10 {
			all.Go(func() {
				s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t, "after", time.Since(began))
			})
		}
		time.Sleep(10 * time.Second)
		busy.AnswerWith(nil)
		all.Wait()
		if d := time.Since(began); d < 20*time.Second || d > 40*time.Second {
			t.Errorf("served after %v", d)
		}
		if n := busy.Calls.Load() - before; n > 20 {
			t.Errorf("10 calls made %d tries", n)
		}
	})
}

// A probe that takes its time, as long answers do, shuts nobody out meanwhile.
func TestUpstreams_SlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
		up.AnswerWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for range 5 {
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		}
		up.AnswerWith(nil)
		time.Sleep(5 * time.Second)
		var slow sync.WaitGroup
		slow.Go(func() {
			s.Call(t.Context(), "a", harness.Chat(false, 5, `,"mock":{"first_token_ms":100000}`)).WantOK(t)
		})
		time.Sleep(15 * time.Second)
		s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t, "15 s into a slow probe")
		slow.Wait()
	})
}

// One of two upstreams is silent, to all or to one of two tenants. Its probes wait for two minutes each, and hold few of the pool's slots
// meanwhile.
func TestUpstreams_ProbesOfASilentOne(t *testing.T) {
	t.Run("to all", func(t *testing.T) { probes(t, false) })
	t.Run("to one", func(t *testing.T) { probes(t, true) })
}

func probes(t *testing.T, others bool) {
	synctest.Test(t, func(t *testing.T) {
		silent := harness.NewUpstream(t, mock.Config{})
		var waiting, most atomic.Int64
		silent.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"user":"b"`)) {
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"}}]}`)
				return
			}
			most.Store(max(most.Load(), waiting.Add(1)))
			defer waiting.Add(-1)
			harness.Silence(w, r)
		})
		s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 1), Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)}, Upstreams: map[string]http.Handler{"up1": silent}})
		var all sync.WaitGroup
		call := func() {
			if others {
				all.Go(func() { s.Call(t.Context(), "b", harness.Chat(false, 5, `,"user":"b"`)) })
			}
			s.Call(t.Context(), "a", harness.Chat(true, 5, ""))
		}
		for range 20 {
			all.Go(call)
		}
		time.Sleep(100 * time.Second)
		call()     // b's calls within half a minute of the ends of a's
		all.Wait() // it is left out
		most.Store(0)
		for range 10 * 60 {
			all.Go(call)
			time.Sleep(time.Second)
		}
		if n := most.Load(); n < 2 || n > 5 {
			t.Errorf("%d calls waited for the silent upstream at once", n)
		}
		all.Wait()
	})
}

// Calls of one tenant that last too long shut out nobody whose calls are answered, however seldom those come.
func TestUpstreams_LateAnswersShutNobodyOut(t *testing.T) {
	t.Run("often", func(t *testing.T) { lateAnswers(t, 5*time.Second) })
	t.Run("seldom", func(t *testing.T) { lateAnswers(t, 3*time.Minute) })
}

func lateAnswers(t *testing.T, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)}})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					s.Call(ctx, "a", harness.Chat(false, 5, `,"mock":{"first_token_ms":6000000}`))
					time.Sleep(time.Second)
				}
			})
		}
		var refused atomic.Int64
		for range 60 {
			time.Sleep(every)
			if ans := s.Call(t.Context(), "b", harness.Chat(false, 5, "")); ans.Status != 200 {
				refused.Add(1)
			}
		}
		stop()
		all.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d of 60 calls of the other tenant were refused", n)
		}
	})
}

// paused is a gateway whose only upstream has asked for a pause of 30 s, with a tenant who waits for
// a minute.
func paused(t *testing.T) (*harness.Stack, *harness.Upstream) {
	t.Helper()
	up := harness.NewUpstream(t, mock.Config{})
	up.AnswerWith(harness.Status(429, "Retry-After", "30"))
	who := harness.Tenant("a", 1)
	who.MaxWait = time.Minute
	return harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": up}}), up
}

// Of a call that was sent back into the queue another with its Idempotency-Key is told
// that it waits.
func TestUpstreams_IdempotencyKeyOfACallThatWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, up := paused(t)
		post := func() (int, string, string) {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway/v1/chat/completions", strings.NewReader(harness.Chat(false, 5, "")))
			req.Header.Set("Authorization", "Bearer a")
			req.Header.Set("Idempotency-Key", "k")
			resp, err := s.Client.Do(req)
			if err != nil {
				t.Error(err)
				return 0, "", ""
			}
			return resp.StatusCode, resp.Header.Get("Retry-After"), harness.ReadAll(resp)
		}
		var first sync.WaitGroup
		first.Go(func() {
			if status, _, text := post(); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
		time.Sleep(time.Second)
		up.AnswerWith(nil)
		if status, after, text := post(); status != 409 || after != "29" && after != "30" {
			t.Errorf("%d, come back in %q: %s", status, after, text)
		}
		first.Wait()
	})
}

// Who goes away while the upstreams that work pause has cancelled; no upstream has failed.
func TestUpstreams_GoneWhileAllPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := harness.NewUpstream(t, mock.Config{})
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		p := harness.PoolOf(1, 1)
		p.Upstreams[0].Name = "gone"
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": busy, "gone": nil}})
		for range 20 { // the one that is gone is found out
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		}
		busy.AnswerWith(harness.Status(429, "Retry-After", "30"))
		ctx, leave := context.WithTimeout(t.Context(), 12*time.Second)
		defer leave()
		var all sync.WaitGroup
		for range 10 { // they are let in when that may be probed, and wait again
			all.Go(func() { s.Call(ctx, "a", harness.Chat(false, 5, "")) })
		}
		all.Wait()
		synctest.Wait()
		if n := s.Sum("llmgov_requests_total", map[string]string{"tenant": "a", "outcome": "cancelled"}); n != 10 {
			t.Errorf("%d of 10 calls are counted as cancelled", n)
		}
	})
}

// Of two that ask for a pause the shorter is waited for, and told to who may not wait,
// whichever was asked last.
func TestUpstreams_TheShorterPause(t *testing.T) {
	for _, pauses := range [][2]string{{"3", "60"}, {"60", "3"}} {
		synctest.Test(t, func(t *testing.T) {
			a := harness.NewUpstream(t, mock.Config{})
			b := harness.NewUpstream(t, mock.Config{})
			a.AnswerWith(harness.Status(429, "Retry-After", pauses[0]))
			b.AnswerWith(harness.Status(429, "Retry-After", pauses[1]))
			who := harness.Tenant("a", 1)
			who.MaxWait = 10 * time.Second
			p := harness.PoolOf(1, 1)
			p.Upstreams[0].Name = "up1"
			p.Upstreams[1].Name = "up2"
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who, harness.Tenant("b", 1)}, Upstreams: map[string]http.Handler{"up1": a, "up2": b}})
			if ans := s.Call(t.Context(), "b", harness.Chat(false, 5, "")); ans.Status != 429 || ans.Header.Get("Retry-After") != "3" {
				t.Errorf("who does not wait gets %d, to come back in %s", ans.Status, ans.Header.Get("Retry-After"))
			}
			time.Sleep(10 * time.Minute)
			began := time.Now()
			time.AfterFunc(time.Second, func() { a.AnswerWith(nil); b.AnswerWith(nil) })
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 200 || time.Since(began) > 4*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), ans.Status, ans.Body)
			}
		})
	}
}

// Who waits for an upstream that a reload replaces goes to the one that is there then;
// but not with what refers to an object there.
func TestUpstreams_ReplacedWhileItPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := harness.NewUpstream(t, mock.Config{})
		anew := harness.NewUpstream(t, mock.Config{})
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		w := harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": old, "up2": anew}}
		s := harness.New(t, w)
		ans := s.CallTo(t.Context(), "/responses", "a", `{"model":"m","input":"x","max_output_tokens":5}`)
		_, rest, _ := strings.Cut(ans.Body, `"id":"resp`)
		id, _, ok := strings.Cut(rest, `"`)
		if ans.Status != 200 || !ok {
			t.Fatalf("%d %s", ans.Status, ans.Body)
		}
		old.AnswerWith(harness.Status(429, "Retry-After", "20"))
		var all sync.WaitGroup
		for _, stream := range []bool{false, true} {
			all.Go(func() {
				s.Call(t.Context(), "a", harness.Chat(stream, 5, "")).WantOK(t)
			})
		}
		all.Go(func() {
			body := `{"model":"m","input":"x","max_output_tokens":5,"previous_response_id":"resp` + id + `"}`
			if ans := s.CallTo(t.Context(), "/responses", "a", body); ans.Status != 429 {
				t.Errorf("what refers to an object of the old one: %d %s", ans.Status, ans.Body)
			}
		})
		time.Sleep(5 * time.Second)
		w.Pool = harness.PoolAt("up2")
		snap := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
		testkit.OK(t, s.Gateway.Apply(snap))
		began := time.Now()
		all.Wait()
		if d, n := time.Since(began), anew.Calls.Load(); d > 10*time.Second || n != 2 {
			t.Errorf("%v after the reload the new one has got %d calls, want 2", d, n)
		}
	})
}

// Who looks after old responses before it makes more loses patience soon, which says
// nothing of the upstream.
func TestUpstreams_ImpatienceIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				harness.Silence(w, r)
				return
			}
			up.Mock.ServeHTTP(w, r)
		})
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
		for range 40 {
			s.CallTo(t.Context(), "/responses", "a", `{"model":"m","input":"x","background":true}`).WantOK(t)
		}
		if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": "silent"}); n > 0 {
			t.Errorf("%d tries are taken for failures", n)
		}
		if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": "abandoned"}); n == 0 {
			t.Error("none was given up")
		}
	})
}

// Who may wait waits as long as that, though it is told to wait a moment again and again.
func TestUpstreams_ManyShortPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(harness.Status(429, "Retry-After-Ms", "200"))
		who := harness.Tenant("a", 1)
		who.MaxWait = 30 * time.Second
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": up}})
		time.AfterFunc(10*time.Second, func() { up.AnswerWith(nil) })
		s.Call(t.Context(), "a", harness.Chat(true, 5, "")).WantOK(t)
	})
}

// An upstream that is gone for long is missing for long, as long as calls tell so.
func TestUpstreams_GoneForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.PoolOf(1, 1)
		p.Upstreams[0].Name = "gone"
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": harness.NewUpstream(t, mock.Config{}), "gone": nil}})
		minutes := testkit.Rounds(11, 20) // all that is believed of an upstream ends within ten, if nothing tells it again
		for i := range minutes * 60 {
			s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
			if ratio := snapshot(s).Pools[0].RateRatio; i > 20 && ratio != 0.5 {
				t.Fatalf("after %d s a part of %v is handed out", i, ratio)
			}
			time.Sleep(time.Second)
		}
	})
}

// Who waits for a pause to end is answered when the gateway drains.
func TestUpstreams_DrainWhileAllPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := paused(t)
		began := time.Now()
		time.AfterFunc(5*time.Second, s.Governor.Drain)
		testkit.AtOnce(4, func(i int) {
			time.Sleep(time.Duration(i) * time.Second) // the first is sent back, the others wait behind it
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 503 && (i > 0 || ans.Status != 429) || ans.Header.Get("Retry-After") == "" {
				t.Errorf("call %d: %d %v %s", i, ans.Status, ans.Header, ans.Body)
			}
		})
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("answered after %v", d)
		}
	})
}

// Of an answer whose usage is told in part, or in a way that cannot be read, the rest is estimated.
func TestUpstreams_UsageInPart(t *testing.T) {
	for usage, want := range map[string][2]int64{
		`{"prompt_tokens":"1,000","completion_tokens":5}`: {0, 5},
		`{"completion_tokens":5}`:                         {0, 5},
		`{"prompt_tokens":9,"completion_tokens":null}`:    {9, 0},
		`[{"prompt_tokens":9}]`:                           {0, 0},
		`{"prompt_tokens":9,"completion_tokens":5}`:       {9, 5},
		`{"prompt_tokens":null,"total_tokens":14}`:        {14, -1},
		`{"prompt_tokens":-1,"completion_tokens":"5"}`:    {0, 5},
		`{"completion_tokens":5,"total_tokens":14}`:       {9, 5},
	} {
		for _, stream := range []bool{false, true} {
			testkit.Virtual(t, fmt.Sprint(usage, " ", stream), func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				up.AnswerWith(saying(200, `{"choices":[{"message":{"content":"abcd"}}],"usage":`+usage+`}`))
				if stream {
					up.AnswerWith(events("data: {\"choices\":[{\"delta\":{\"content\":\"abcd\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":" + usage + "}\n\ndata: [DONE]\n\n"))
				}
				s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
				defer s.Close()
				s.Call(t.Context(), "a", harness.Chat(stream, 50, "")).WantOK(t, usage)
				unread := int64(0)
				for i, kind := range []string{"input", "output"} {
					got := s.Charged("a", kind)
					if want[i] == 0 {
						unread = 1
						if got < 1 || got > 45 {
							t.Errorf("%s: %d %s tokens are charged by estimate", usage, got, kind)
						}
					} else if got != max(0, want[i]) {
						t.Errorf("%s: %d %s tokens are charged, want %d", usage, got, kind, want[i])
					}
				}
				if n := s.Sum("llmgov_usage_unread_total", nil); n != unread {
					t.Errorf("%s: %d answers count as unread", usage, n)
				}
			})
		}
	}
}

// A body of JSON may begin with a byte order mark, which the upstream does not get.
func TestUpstreams_ByteOrderMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
		for _, stream := range []bool{false, true} {
			s.Call(t.Context(), "a", "\ufeff"+harness.Chat(stream, 50, "")).WantOK(t, "with a byte order mark")
		}
	})
}

// What is sent again is sent whole, whatever of it the first upstream has read: also to
// the same one after a pause, and what is a form.
func TestUpstreams_BodiesAreSentWhole(t *testing.T) {
	text := strings.Repeat("a long story ", 100_000)
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + text + "\r\n--x--\r\n"
	for path, body := range map[string]string{"/audio/transcriptions": form, "/embeddings": `{"model":"m","input":"` + text + `"}`} {
		for name, p := range map[string]tenants.Pool{"elsewhere": harness.PoolOf(1, 100), "again": harness.PoolAt("up1")} {
			for _, reads := range []int64{0, 1000, 1 << 30} {
				testkit.Virtual(t, fmt.Sprint(path, " ", name, " ", reads), func(t *testing.T) {
					up := harness.NewUpstream(t, mock.Config{})
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
					up.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.CopyN(io.Discard, r.Body, reads)
						up.AnswerWith(whole)
						harness.Status(429, "Retry-After", "1")(w, r)
					})
					other := harness.NewUpstream(t, mock.Config{})
					other.AnswerWith(whole)
					p.Upstreams[0].Name = map[string]string{"elsewhere": "up2", "again": "up1"}[name]
					who := harness.Tenant("a", 1)
					who.MaxWait = 10 * time.Second
					s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": up, "up2": other}})
					kind := "application/json"
					if body == form {
						kind = "multipart/form-data; boundary=x"
					}
					s.CallTo(t.Context(), path, "a", body, "Content-Type", kind).WantOK(t)
					if n := up.Calls.Load() + other.Calls.Load(); n != 2 {
						t.Errorf("%d tries", n)
					}
					s.CheckIdle()
					time.Sleep(time.Second) // a server that has not read all closes slowly
				})
			}
		}
	}
}
