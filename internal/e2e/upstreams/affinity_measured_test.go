package upstreams

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

var measured = flag.Bool("affinity", false, "measure affinity beside spreading with 2, 4 and 8 upstreams, and print the table of docs/upstreams.md")

// talk is how users talk to some upstreams, of 8 slots and with a cache of 64k tokens each: each user holds one conversation after
// the other, whose prompts grow by 250 tokens a call behind instructions of 1000 that are common to all, and thinks for up
// to 2 s before each call. Answers take up to 4 s.
type talk struct {
	upstreams, users     int
	conversations, calls int // of a user, and of a conversation
	affinity             tenants.Affinity
}

// talked is how it went.
type talked struct {
	prompt, cached int64           // tokens
	firsts         []time.Duration // to the first token of each answer
}

func (r *talked) hits() float64 { return 100 * float64(r.cached) / float64(r.prompt) }

// late is the 95th percentile of the time to the first token.
func (r *talked) late() time.Duration {
	slices.Sort(r.firsts)
	return r.firsts[len(r.firsts)*95/100]
}

func (w talk) run(t *testing.T) (out talked) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(0, 0, 1000)
		p.Affinity = w.affinity
		handlers := map[string]http.Handler{}
		var list []*harness.Upstream
		for i := range w.upstreams {
			u := harness.NewUpstream(t, mock.Config{PrefixCache: 64_000, Slots: 8, FirstToken: 200 * time.Millisecond, TokensPerSecond: 10})
			name := "up" + strconv.Itoa(i)
			p.Upstreams = append(p.Upstreams, tenants.PoolUpstream{Name: name, Weight: 1})
			handlers[name] = u
			list = append(list, u)
		}
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: handlers})
		var mu sync.Mutex
		var users sync.WaitGroup
		for user := range w.users {
			users.Go(func() {
				firsts := w.user(t, s, user)
				mu.Lock()
				out.firsts = append(out.firsts, firsts...)
				mu.Unlock()
			})
		}
		users.Wait()
		for _, u := range list {
			out.prompt += u.Mock.Stats().PromptTokens
			out.cached += u.Mock.Stats().CachedTokens
		}
	})
	return out
}

// user holds the conversations of one user.
func (w talk) user(t *testing.T, s *harness.Stack, user int) (firsts []time.Duration) {
	r := rand.New(rand.NewPCG(uint64(user), 1))
	for n := range w.conversations {
		id := fmt.Sprintf("%d-%d", user, n)
		messages := `{"role":"system","content":"` + strings.Repeat("rule", 1000) + `"}`
		for range w.calls {
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
			messages += fmt.Sprintf(`,{"role":"user","content":"%s %s"}`, id, strings.Repeat("word", 235))
			body := fmt.Sprintf(`{"model":"m","messages":[%s],"stream":true,"max_tokens":%d}`, messages, 1+r.IntN(40))
			header := []string{}
			if w.affinity == tenants.AffinitySession {
				header = []string{"X-Llmgov-Session", id}
			}
			began := time.Now()
			resp, err := s.Post(t.Context(), "a", body, header...)
			if err != nil {
				t.Error(err)
				return firsts
			}
			firsts = append(firsts, firstPiece(resp).Sub(began))
		}
	}
	return firsts
}

// firstPiece reads an answer to its end. It returns the time of its first piece.
func firstPiece(resp *http.Response) (first time.Time) {
	defer resp.Body.Close()
	var b [4096]byte
	for {
		n, err := resp.Body.Read(b[:])
		if n > 0 && first.IsZero() {
			first = time.Now()
		}
		if err != nil {
			return first
		}
	}
}

// A conversation's prompts are found in the cache almost as often as with a single upstream, which no spreading comes near.
func TestAffinity_Measured(t *testing.T) {
	size := talk{users: 3, conversations: 1, calls: 8}
	counts := []int{4}
	if *measured {
		size = talk{users: 9, conversations: 3, calls: 8}
		counts = []int{1, 2, 4, 8}
	}
	for _, n := range counts {
		hits := map[tenants.Affinity]float64{}
		for _, a := range []tenants.Affinity{tenants.AffinityNone, tenants.AffinitySession, tenants.AffinityMessages} {
			w := size
			w.upstreams = n
			w.users *= n
			w.affinity = a
			r := w.run(t)
			hits[a] = r.hits()
			t.Logf("%d upstreams, %-8s: %.1f %% of %d tokens cached, first token p95 %v", n, a, r.hits(), r.prompt, r.late().Round(10*time.Millisecond))
		}
		if none := hits[tenants.AffinityNone]; n > 2 && none > 70 {
			t.Errorf("%d upstreams: without affinity %.1f %% of the tokens are cached: the measurement shows nothing", n, none)
		}
		for _, a := range []tenants.Affinity{tenants.AffinitySession, tenants.AffinityMessages} {
			if hits[a] < 80 {
				t.Errorf("%d upstreams, %s: %.1f %% of the tokens are cached, want 80", n, a, hits[a])
			}
		}
	}
	if !*measured {
		return
	}
	for _, a := range []tenants.Affinity{tenants.AffinityNone, tenants.AffinityMessages} {
		r := talk{upstreams: 8, users: 72, conversations: 24, calls: 1, affinity: a}.run(t)
		t.Logf("8 upstreams, %-8s: calls of no conversation: %.1f %% of %d tokens cached, first token p95 %v", a, r.hits(), r.prompt, r.late().Round(10*time.Millisecond))
	}
}
