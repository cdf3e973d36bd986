package mock

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"pgregory.net/rapid"
)

// TestLimitIsTheLimit: what fills it exactly goes, one token more does not.
func TestLimitIsTheLimit(t *testing.T) {
	for _, tt := range []struct {
		accounting string
		full       int64 // after 12 tokens used, the second call needs its prompt, and its bound where that is booked
	}{
		{AdmitMax, 12 + 8 + 1},
		{Production, 12 + 8},
		{Settle, 12 + 8},
	} {
		for short, status := range []int{200, 429} {
			r := onSocket(t, Config{TPM: tt.full - int64(short), Accounting: tt.accounting})
			r.chat(`"max_tokens":4`)
			if got := r.chat(`"max_tokens":1`); got.status != status {
				t.Errorf("%s, limit %d short: %d, want %d", tt.accounting, short, got.status, status)
			}
		}
	}
}

func TestRefusalTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{TPM: 100, RPM: 1000})
		r.chat(`"max_tokens":32`) // 40 tokens at 0 s
		time.Sleep(1500 * time.Millisecond)
		r.chat(`"max_tokens":42`) // 50 more at 1.5 s
		time.Sleep(8*time.Second + 300*time.Microsecond)

		got := r.chat(`"max_tokens":22`) // 30: the first 40 must have left, at 60 s
		const message = "Rate limit reached for m on tokens per min (TPM): Limit 100, Used 90, Requested 30. Please try again in 50.5s."
		want := `{"error":{"message":"` + message + `","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`
		if got.status != 429 || got.body != want {
			t.Errorf("got %d %s\nwant 429 %s", got.status, got.body, want)
		}
		wantHeader(t, got.header, map[string]string{
			"Retry-After": "51", "Retry-After-Ms": "50500",
			"X-Ratelimit-Limit-Requests": "1000", "X-Ratelimit-Remaining-Requests": "998", "X-Ratelimit-Reset-Requests": "52s",
			"X-Ratelimit-Limit-Tokens": "100", "X-Ratelimit-Remaining-Tokens": "10", "X-Ratelimit-Reset-Tokens": "52s",
		})
		time.Sleep(50500 * time.Millisecond)
		if got := r.chat(`"max_tokens":22`); got.status != 200 {
			t.Errorf("came back when told: %d %s", got.status, got.body)
		}
	})
}

func wantHeader(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = h.Get(name)
	}
	testkit.Same(t, want, got, "headers")
}

func TestRequestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{RPM: 2})
		r.chat("")
		time.Sleep(20 * time.Second)
		ok := r.chat("")
		wantHeader(t, ok.header, map[string]string{
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s", "X-Ratelimit-Limit-Tokens": "",
		})
		got := r.chat("")
		if got.status != 429 || got.get("error.type").Str != "requests" || got.header.Get("Retry-After") != "40" {
			t.Errorf("third request: %d %v %s", got.status, got.header, got.body)
		}
	})
}

// TestRequestLimit_Azure: a part of the limit is served in each short window of the clock, and the headers say that part.
func TestRequestLimit_Azure(t *testing.T) {
	for _, tt := range []struct {
		minute        string
		rpm           int64
		limit, window int
	}{{Azure, 120, 20, 10}, {AzureSecond, 120, 2, 1}, {Azure, 5, 1, 10}, {AzureSecond, 50, 1, 1}} {
		testkit.Virtual(t, fmt.Sprint(tt.minute, tt.rpm), func(t *testing.T) {
			r := inBubble(t, Config{RPM: tt.rpm, Minute: tt.minute})
			time.Sleep(300 * time.Millisecond)
			for i := range 2 * tt.limit {
				want := 200
				if i >= tt.limit {
					want = 429
				}
				if got := r.chat(""); got.status != want || got.header.Get("X-Ratelimit-Limit-Requests") != strconv.Itoa(tt.limit) {
					t.Errorf("request %d: %d %v, want %d", i, got.status, got.header, want)
				}
			}
			got := r.chat("")
			wantHeader(t, got.header, map[string]string{"Retry-After": strconv.Itoa(tt.window), "X-Ratelimit-Remaining-Requests": "0"})
			time.Sleep(time.Duration(tt.window)*time.Second - 300*time.Millisecond)
			if got := r.chat(""); got.status != 200 {
				t.Errorf("in the next window: %d", got.status)
			}
		})
	}
}

func TestRequestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{TPM: 100})
		if got := r.chat(`"max_tokens":92,"mock":{"output_tokens":0}`); got.status != 200 {
			t.Errorf("just as large as the limit: %d %s", got.status, got.body)
		}
		got := r.chat(`"max_tokens":93`)
		if got.status != 429 || !strings.HasPrefix(got.get("error.message").Str, "Request too large for m") {
			t.Errorf("got %d %s", got.status, got.body)
		}
		wantHeader(t, got.header, map[string]string{"Retry-After": "", "X-Should-Retry": "false"})
	})
}

// TestAccounting runs one call of 8 prompt tokens, at most 100 and really 20 output tokens, at
// 10 tokens a second, and looks at the window while it runs and after.
func TestAccounting(t *testing.T) {
	for _, tt := range []struct {
		accounting                string
		atOnce, after1s, atTheEnd int64
	}{
		{AdmitMax, 108, 108, 28},
		{Production, 9, 19, 28}, // the first token is due at once
		{Settle, 0, 0, 28},
	} {
		for _, stream := range []string{"true", "false"} {
			testkit.Virtual(t, tt.accounting+"/stream="+stream, func(t *testing.T) {
				r := inBubble(t, Config{TPM: 1000, Accounting: tt.accounting, TokensPerSecond: 10})
				done := make(chan reply, 1)
				go func() {
					done <- r.chat(`"stream":` + stream + `,"max_tokens":100,"mock":{"output_tokens":20}`)
				}()
				window := func() int64 { synctest.Wait(); return r.s.Stats().WindowTokens }
				if got := window(); got != tt.atOnce {
					t.Errorf("at the start %d tokens count, want %d", got, tt.atOnce)
				}
				time.Sleep(time.Second)
				if got := window(); got != tt.after1s {
					t.Errorf("after 1 s %d tokens count, want %d", got, tt.after1s)
				}
				<-done
				if got := window(); got != tt.atTheEnd {
					t.Errorf("at the end %d tokens count, want %d", got, tt.atTheEnd)
				}
			})
		}
	}
}

// TestRefundReducesTheOriginal books at 0 s, gives back at 30 s: what is left leaves at 60 s,
// not at 90 s.
func TestRefundReducesTheOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{TPM: 108, FirstToken: 30 * time.Second})
		r.chat(`"max_tokens":100,"mock":{"output_tokens":2}`)
		if got := r.s.Stats().WindowTokens; got != 10 {
			t.Errorf("after the refund %d tokens count, want 10", got)
		}
		time.Sleep(30*time.Second - 1)
		if got := r.s.Stats().WindowTokens; got != 10 {
			t.Errorf("before 60 s %d tokens count, want 10", got)
		}
		time.Sleep(time.Nanosecond)
		if got := r.s.Stats().WindowTokens; got != 0 {
			t.Errorf("at 60 s %d tokens count, want 0", got)
		}
	})
}

// TestRefundOfCancelled: who goes half way is charged for what was produced, in each way of counting.
func TestRefundOfCancelled(t *testing.T) {
	for accounting, burnt := range map[string]int64{AdmitMax: 11, Production: 11, Settle: 11, Bedrock: 55} {
		for _, stream := range []string{"true", "false"} {
			testkit.Virtual(t, accounting+"/stream="+stream, func(t *testing.T) {
				r := inBubble(t, Config{TPM: 1000, Accounting: accounting, TokensPerSecond: 10})
				ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
				defer cancel()
				r.do(ctx, "POST", "/v1/chat/completions", chatBody(`"max_tokens":100,"stream":`+stream))
				synctest.Wait()
				r.wantStats(Stats{
					Requests: 1, Admitted: 1, Cancelled: 1,
					PromptTokens: chatPrompt, OutputTokens: 11, WindowTokens: chatPrompt + burnt,
				})
			})
		}
	}
}

// naive is the window as its definition says it: a list that is never cut.
type naive []entry

func (n naive) sum(now time.Duration) (sum int64) {
	for _, e := range n {
		if e.at > now-minute && e.at <= now {
			sum += e.amount
		}
	}
	return sum
}

// gone returns when at least amount of what is in the window now will have left it.
func (n naive) gone(now time.Duration, amount int64) time.Duration {
	before := n.sum(now)
	for _, e := range n { // only at these instants does the sum fall
		if at := e.at + minute; at > now && before-n.sum(at) >= amount {
			return at - now
		}
	}
	return 0
}

func TestWindowAgainstNaiveList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			w    window
			n    naive
			refs []uint64
			now  time.Duration
			peak int64
		)
		gap := rapid.OneOf(
			rapid.Just(time.Duration(0)), rapid.Just(time.Duration(1)), rapid.Just(minute-1), rapid.Just(minute),
			rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "gap"))
			}))
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += gap.Draw(t, "wait")
			if len(n) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				amount := rapid.Int64Range(0, 100).Draw(t, "amount")
				refs = append(refs, w.add(now, amount))
				n = append(n, entry{now, amount})
			} else {
				i := rapid.IntRange(0, len(n)-1).Draw(t, "refund of")
				back := rapid.Int64Range(0, n[i].amount).Draw(t, "refund")
				w.reduce(now, refs[i], back)
				n[i].amount -= back
			}
			w.expire(now)
			peak = max(peak, n.sum(now))
			if w.sum != n.sum(now) || w.peak != peak {
				t.Fatalf("at %s: sum %d peak %d, want %d and %d", now, w.sum, w.peak, n.sum(now), peak)
			}
			if amount := rapid.Int64Range(0, 300).Draw(t, "need"); amount > 0 && amount <= w.sum {
				if got, want := w.wait(now, amount), n.gone(now, amount); got != want {
					t.Fatalf("at %s: wait for %d = %s, want %s", now, amount, got, want)
				}
			}
			if got, want := w.empty(now), n.gone(now, w.sum); w.sum > 0 && got != want {
				t.Fatalf("at %s: empty in %s, want %s", now, got, want)
			}
		}
	})
}

// TestWindow_Ways: of 60 used at 50 s and 30 at 55 s, what counts at 62 s and 112 s by each way, and when 40 of it will count no more.
func TestWindow_Ways(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		w          window
		sum, later int64
		wait       time.Duration // at 62 s
	}{
		Rolling: {window{}, 90, 30, 48 * s},
		Fixed:   {window{fixed: minute}, 0, 0, 0},
		Bucket:  {window{fill: 120}, 66, 0, 20 * s}, // two in a second
	} {
		w := &tt.w
		w.add(50*s, 60)
		ref := w.add(55*s, 35)
		w.reduce(55*s, ref, 5)
		wait := w.wait(62*s, 40)
		if w.sum != tt.sum || wait != tt.wait {
			t.Errorf("%s: %d count at 62 s, and 40 less after %v, want %d and %v", name, w.sum, wait, tt.sum, tt.wait)
		}
		if w.expire(112 * s); w.sum != tt.later {
			t.Errorf("%s: %d count at 112 s, want %d", name, w.sum, tt.later)
		}
	}
}
