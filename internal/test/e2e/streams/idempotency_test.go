package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

const idempotencyKey = "Idempotency-Key"

// keyedRoutes are routes of each dialect, with calls that run for ten seconds.
var keyedRoutes = map[string]string{
	"/chat/completions": `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":100`,
	"/completions":      `{"model":"m","prompt":"x","max_tokens":100`,
	"/responses":        `{"model":"m","input":"x","max_output_tokens":100`,
	"/messages":         `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":100`,
}

// refusedTwin checks a 409 in the caller's dialect, and returns when it says to come back.
func refusedTwin(t *testing.T, path string, a harness.Answer) time.Duration {
	t.Helper()
	var body struct {
		Type  string
		Error struct{ Type, Code, Message string }
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("%v: %q", err, a.Body)
	}
	kind := "request_in_progress"
	const code = "request_in_progress"
	if path == "/messages" {
		kind = "conflict_error"
	}
	if a.Status != http.StatusConflict || body.Error.Type != kind || body.Error.Code != code || (body.Type == "error") != (path == "/messages") {
		t.Errorf("%s: %d %s", path, a.Status, a.Body)
	}
	ms, err := strconv.Atoi(a.Header.Get("retry-after-ms"))
	seconds, err2 := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || err2 != nil || seconds < 1 || seconds*1000 < ms || seconds*1000 >= ms+1000 {
		t.Errorf("%s: come back after %q s, %q ms", path, a.Header.Get("Retry-After"), a.Header.Get("retry-after-ms"))
	}
	return time.Duration(ms) * time.Millisecond
}

// While a call runs, another with its tenant, key and body is told when to come back,
// and served then; whatever differs is another call. Upstream sees no key.
func TestIdempotencyKey(t *testing.T) {
	for path, body := range keyedRoutes {
		for _, stream := range []bool{false, true} {
			testkit.Virtual(t, fmt.Sprintf("%s/stream=%v", path[1:], stream), func(t *testing.T) { keyIsHeld(t, path, body, stream) })
		}
	}
}

func keyIsHeld(t *testing.T, path, body string, stream bool) {
	plain := body + `,"stream":false}`
	body += fmt.Sprintf(`,"stream":%v}`, stream)
	var leaked atomic.Int64
	s := harness.New(t, harness.World{
		Mock: mock.Config{TokensPerSecond: 10, FirstToken: 100 * time.Millisecond}, Pool: harness.Pool(1_000_000, 0, 0),
		Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)},
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get(idempotencyKey) != "" {
					leaked.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
	})
	call := func(tenant, body string, header ...string) harness.Answer {
		return s.CallTo(t.Context(), path, tenant, body, header...)
	}
	for range 80 { // teach how long such calls are, and how fast
		call("a", plain)
	}
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := call("a", body, idempotencyKey, "k"); a.Status != http.StatusOK || a.Err != nil {
			t.Errorf("the first: %d %s %v", a.Status, a.Body, a.Err)
		}
	})
	for _, at := range []time.Duration{10 * time.Millisecond, 3 * time.Second, 7 * time.Second} {
		time.Sleep(at - time.Since(began))
		wait := refusedTwin(t, path, call("a", body, idempotencyKey, "k"))
		// The call takes 10 s. A quarter is what lengths are known to within a bin.
		if left := 10*time.Second - at; wait < left*3/4 || wait > left*5/4+time.Second {
			t.Errorf("after %v it is to come back in %v", at, wait)
		}
	}
	if a := call("a", body[:len(body)-1]+`,"user":"u"}`, idempotencyKey, "k"); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "Idempotency-Key") {
		t.Errorf("another body: %d %s", a.Status, a.Body)
	}
	for _, other := range [][2]string{{"b", "k"}, {"a", "other"}, {"a", ""}} {
		wg.Go(func() {
			if a := call(other[0], body, idempotencyKey, other[1]); a.Status != http.StatusOK {
				t.Errorf("tenant %s with key %q: %d %s", other[0], other[1], a.Status, a.Body)
			}
		})
	}
	synctest.Wait()
	twin := call("a", body, idempotencyKey, "k")
	tries := 1
	for ; twin.Status == http.StatusConflict; tries++ { // as an SDK does, which tries three times
		refusedTwin(t, path, twin)
		seconds, _ := strconv.Atoi(twin.Header.Get("Retry-After"))
		time.Sleep(time.Duration(seconds) * time.Second)
		twin = call("a", body, idempotencyKey, "k")
	}
	if twin.Status != http.StatusOK || tries < 2 || tries > 3 {
		t.Errorf("who came back when told got, at try %d: %d %s", tries, twin.Status, twin.Body)
	}
	wg.Wait()
	if a := call("a", body, idempotencyKey, "k"); a.Status != http.StatusOK {
		t.Errorf("after the end: %d %s", a.Status, a.Body)
	}
	s.CheckIdle()
	checkCharged(s, "at the end")
	if n := s.Sum("llmgov_requests_total", map[string]string{"tenant": "a", "reason": "request_in_progress"}); n != int64(3+tries-1) || leaked.Load() != 0 {
		t.Errorf("%d refusals are counted, want %d; upstream saw %d keys", n, 3+tries-1, leaked.Load())
	}
}

// Nothing is known of the first calls of all: who comes back when told comes back soon to one that
// declares tokens for a minute and takes two seconds, and seldom to one that does take its minute.
func TestIdempotencyKey_Unknown(t *testing.T) {
	for tokens, most := range map[int]int{20: 2, 600: 7} { // how many ask in vain
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, harness.World{
				Mock: mock.Config{TokensPerSecond: 10, OutputTokens: tokens}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)},
			})
			body := `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":4096`
			body += fmt.Sprintf(`,"mock":{"output_tokens":%d}}`, tokens)
			call := func() harness.Answer {
				return s.CallTo(t.Context(), "/chat/completions", "a", body, idempotencyKey, "k")
			}
			began := time.Now()
			lasts := time.Duration(tokens) * time.Second / 10
			var wg sync.WaitGroup
			wg.Go(func() {
				if a := call(); a.Status != http.StatusOK {
					t.Errorf("the first: %d %s", a.Status, a.Body)
				}
			})
			synctest.Wait()
			told := 0
			for a := call(); a.Status == http.StatusConflict; a = call() {
				told++
				wait := refusedTwin(t, "/chat/completions", a)
				if late := time.Since(began) + wait - max(2*lasts, lasts+time.Second); late > 0 {
					t.Errorf("of %v: who came %v after the first is to come back in %v, %v too late", lasts, time.Since(began), wait, late)
				}
				time.Sleep(wait)
			}
			if told > most {
				t.Errorf("of %v: %d came back in vain, want at most %d", lasts, told, most)
			}
			wg.Wait()
		})
	}
}

// A call that waits is a call that runs: its twin would take a second place. When its
// client goes it ends at once, so who times out and tries again is let in, as is who
// comes back to a kept place, and who comes after any other end.
func TestIdempotencyKey_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := harness.Tenant("a", 1)
		a.MaxWait = 8 * time.Second
		s := harness.New(t, harness.World{
			Mock: mock.Config{TokensPerSecond: 10}, Pool: harness.Pool(0, 0, 1), Tenants: []tenants.Tenant{a},
			StreamIdle: 5 * time.Second, Wrap: panicOn,
		})
		long := harness.Chat(true, 200, "")
		key := []string{idempotencyKey, "k"}

		holder, let := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Call(holder, "a", long) })
		synctest.Wait()
		waiting, hangUp := context.WithCancel(t.Context())
		wg.Go(func() { s.Call(waiting, "a", long, key...) })
		synctest.Wait()
		// Of such calls nothing is known yet, of its wait that it is 8 s at most.
		if wait := refusedTwin(t, "", s.Call(t.Context(), "a", long, key...)); wait < time.Second || wait > 8*time.Second {
			t.Errorf("the twin of one that waits is to come back in %v", wait)
		}
		time.Sleep(10 * time.Millisecond) // from when on the connection is watched
		hangUp()
		synctest.Wait()
		if ans := s.Call(t.Context(), "a", long, key...); ans.Status != http.StatusTooManyRequests { // after 8 s
			t.Errorf("who tries again when its first try has gone: %d %s", ans.Status, ans.Body)
		}
		let()
		wg.Wait()
		for _, end := range []struct {
			name   string
			status int
			hooks  string
			header []string
			ctx    time.Duration
		}{
			{name: "whole", status: 200},
			{name: "upstream cut", status: 200, hooks: `"hangup_after":3`},
			{name: "error event", status: 200, hooks: `"error_after":3`},
			{name: "idle", status: 200, hooks: `"stall_after":3`},
			{name: "upstream's 500", status: 500, hooks: `"error_status":500`},
			{name: "upstream's 429", status: 429, hooks: `"error_status":429`},
			{name: "bad priority", status: 400, header: []string{"X-Llmgov-Priority", "high"}},
			{name: "panic", status: 200, header: []string{"X-Title", "panic"}},
			{name: "client gone", status: 200, ctx: time.Second},
		} {
			body := harness.Chat(true, 30, `,"mock":{`+end.hooks+`}`)
			for try := range 3 { // the next one comes as soon as the one before has ended
				ctx := t.Context()
				cancel := func() {}
				if end.ctx > 0 {
					ctx, cancel = context.WithTimeout(ctx, end.ctx)
				}
				if ans := s.Call(ctx, "a", body, append(end.header, key...)...); ans.Status != end.status {
					t.Errorf("%s, try %d: %d %s %v", end.name, try, ans.Status, ans.Body, ans.Err)
				}
				cancel()
				synctest.Wait()
			}
		}
	})
}

// A storm of twins that come, hang up and come back: of each name one call at most is
// upstream at any time, every name is served in the end, and none is stuck.
func TestIdempotencyKey_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names, twins = 12, 25
		var upstream, most [names]atomic.Int64
		w := harness.World{
			Mock: mock.Config{TokensPerSecond: 50}, Pool: harness.Pool(0, 0, 5),
			Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)},
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
					n, err := strconv.Atoi(r.Header.Get("X-Title"))
					if err != nil {
						return next.RoundTrip(r)
					}
					most[n].Store(max(most[n].Load(), upstream[n].Add(1)))
					resp, err := next.RoundTrip(r)
					if err != nil {
						upstream[n].Add(-1)
						return nil, err
					}
					resp.Body = &leaving{ReadCloser: resp.Body, leave: func() { upstream[n].Add(-1) }}
					return resp, nil
				})
			},
		}
		for i := range w.Tenants {
			w.Tenants[i].MaxWait = 2 * time.Second
		}
		s := harness.New(t, w)
		var served, conflicts atomic.Int64
		var wg sync.WaitGroup
		for n := range names {
			for twin := range twins {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(n), uint64(twin)))
					// both tenants have the same keys
					tenant := []string{"a", "b"}[n%2]
					key := fmt.Sprint(n / 2)
					for {
						ctx, cancel := context.WithCancel(t.Context())
						if rng.IntN(3) == 0 {
							time.AfterFunc(time.Duration(rng.Int64N(int64(3*time.Second))), cancel)
						}
						a := s.Call(ctx, tenant, harness.Chat(n%3 == 0, 60, ""), idempotencyKey, key, "X-Title", strconv.Itoa(n))
						gone := ctx.Err() != nil
						cancel()
						switch {
						case a.Status == http.StatusConflict:
							conflicts.Add(1)
						case a.Status == http.StatusOK && a.Err == nil:
							served.Add(1)
							return
						case a.Status != http.StatusTooManyRequests && !gone:
							t.Errorf("%d %v: %s", a.Status, a.Err, a.Body)
						}
						back, _ := strconv.Atoi(a.Header.Get("Retry-After"))
						time.Sleep(time.Duration(back)*time.Second + harness.RandomPause(1, 400))
					}
				})
			}
		}
		wg.Wait()
		s.CheckIdle()
		checkServedOnce(s, names*twins, &most, served.Load())
		t.Logf("%d were served, %d times one was told that its twin runs", served.Load(), conflicts.Load())
		if conflicts.Load() < names*twins {
			t.Errorf("only %d conflicts: the storm was none", conflicts.Load())
		}
	})
}

func checkServedOnce(s *harness.Stack, want int64, most *[12]atomic.Int64, served int64) {
	s.T.Helper()
	for n := range most {
		if got := most[n].Load(); got != 1 {
			s.T.Errorf("call %d was upstream %d times at once", n, got)
		}
	}
	if served != want {
		s.T.Errorf("%d were served, want %d", served, want)
	}
}

// leaving is a body that tells when it is closed.
type leaving struct {
	io.ReadCloser
	leave func()
	once  sync.Once
}

func (b *leaving) Close() error {
	defer b.once.Do(b.leave)
	return b.ReadCloser.Close()
}
