package mock

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestKnee: with 4 slots, 8 requests of 1 s each take 1 s and 2 s.
func TestKnee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{Slots: 4, FirstToken: time.Second})
		start := time.Now()
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			took []time.Duration
		)
		for range 8 {
			wg.Go(func() {
				r.chat("")
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
			})
		}
		synctest.Wait()
		if st := r.s.Stats(); st.Running != 4 || st.Queued != 4 {
			t.Errorf("running %d, queued %d, want 4 and 4", st.Running, st.Queued)
		}
		wg.Wait()
		slices.Sort(took)
		s := time.Second
		testkit.Same(t, []time.Duration{s, s, s, s, 2 * s, 2 * s, 2 * s, 2 * s}, took, "times")
		if st := r.s.Stats(); st.PeakRunning != 4 || st.Running != 0 || st.Queued != 0 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{Slots: 1, FirstToken: time.Second})
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			order []int
		)
		for i := range 6 {
			wg.Go(func() {
				r.chat("")
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait() // i stands in the queue before i+1 comes
		}
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

// TestLeavingTheQueue: who goes while queued takes no slot from those behind.
func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{Slots: 1, FirstToken: time.Second, TPM: 1000})
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { r.chat("") })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { r.do(ctx, "POST", "/v1/chat/completions", chatBody("")) })
		synctest.Wait()
		wg.Go(func() { r.chat("") })
		synctest.Wait()
		cancel()
		wg.Wait()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
		r.wantStats(Stats{
			Requests: 3, Admitted: 3, Cancelled: 1, Completed: 2,
			PromptTokens: 3 * chatPrompt, OutputTokens: 64, WindowTokens: 3*chatPrompt + 64,
		})
	})
}

// TestTokensAreDueOnTime reads a stream and notes when each token comes. 3 tokens a second
// make no whole nanoseconds, yet every third falls on a whole second.
func TestTokensAreDueOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{FirstToken: 500 * time.Millisecond, TokensPerSecond: 3})
		start := time.Now()
		resp := testkit.Must(r.client.Post(r.url+"/v1/chat/completions", "application/json",
			strings.NewReader(chatBody(`"stream":true,"max_tokens":301`))))(t)
		defer resp.Body.Close()
		n := 0
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if tokens(sc.Text()+"\n\n") == 0 {
				continue
			}
			want := 500*time.Millisecond + (time.Duration(n)*time.Second+1)/3
			if got := time.Since(start); got != want {
				t.Fatalf("token %d came after %s, want %s", n, got, want)
			}
			n++
		}
		if n != 301 {
			t.Errorf("%d tokens, want 301", n)
		}
	})
}

// TestSlowReader lets the client sleep: the tokens that were late come at once, the others on time.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{TokensPerSecond: 1})
		resp := testkit.Must(r.client.Post(r.url+"/v1/chat/completions", "application/json",
			strings.NewReader(chatBody(`"stream":true,"max_tokens":2000`))))(t)
		defer resp.Body.Close()
		start := time.Now()
		time.Sleep(1000 * time.Second) // what the transport has not taken has not been produced
		if got := r.s.Stats().OutputTokens; got > 100 {
			t.Errorf("%d tokens produced for a reader that sleeps", got)
		}
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if strings.Contains(sc.Text(), "[DONE]") {
				break
			}
		}
		if got := time.Since(start); got != 1999*time.Second {
			t.Errorf("the answer took %s, want 1999s", got)
		}
	})
}

// TestUnsentTokensDoNotCount: a client that reads nothing and goes has been sent nothing.
func TestUnsentTokensDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{})
		conn := testkit.Must(r.dial(t.Context(), "", ""))(t)
		body := chatBody(`"stream":true`)
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		synctest.Wait()
		r.wantStats(Stats{Requests: 1, Admitted: 1, Running: 1, PromptTokens: chatPrompt})
		conn.Close()
		synctest.Wait()
		r.wantStats(Stats{Requests: 1, Admitted: 1, Cancelled: 1, PromptTokens: chatPrompt})
	})
}

func TestHowLongAnswersTake(t *testing.T) {
	for _, tt := range []struct {
		cfg    Config
		fields string
		want   time.Duration
	}{
		{Config{}, ``, 0},
		{Config{FirstToken: time.Second}, ``, time.Second},
		{Config{TokensPerSecond: 31}, ``, time.Second},
		{Config{FirstToken: time.Second, TokensPerSecond: 10}, `"max_tokens":11`, 2 * time.Second},
		{Config{TokensPerSecond: 10}, `"max_tokens":11,"n":3`, time.Second}, // choices run side by side
		{Config{SlowRate: 1, SlowChunk: time.Second}, `"max_tokens":5`, 5 * time.Second},
		{Config{SlowRate: 1, SlowChunk: time.Second, TokensPerSecond: 1}, `"max_tokens":5`, 9 * time.Second},
		{Config{FirstToken: time.Hour}, `"mock":{"first_token_ms":1.5}`, 1500 * time.Microsecond},
		{Config{TokensPerSecond: 1}, `"mock":{"token_ms":0}`, 0},
		{Config{}, `"max_tokens":4,"mock":{"token_ms":7}`, 21 * time.Millisecond},
	} {
		for _, stream := range []bool{true, false} {
			fields := fmt.Sprintf(`"stream":%t`, stream)
			if tt.fields != "" {
				fields += "," + tt.fields
			}
			synctest.Test(t, func(t *testing.T) {
				r := inBubble(t, tt.cfg)
				start := time.Now()
				if got := r.chat(fields); got.status != http.StatusOK || got.err != nil {
					t.Errorf("%s: %d %v", fields, got.status, got.err)
				}
				if got := time.Since(start); got != tt.want {
					t.Errorf("%s: took %s, want %s", fields, got, tt.want)
				}
			})
		}
	}
}
