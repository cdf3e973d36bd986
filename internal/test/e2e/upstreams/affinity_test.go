package upstreams

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// ups is a stack with four upstreams of the same weight, and counts the calls of each.
func ups(t *testing.T, affinity tenants.Affinity) (s *harness.Stack, list []*harness.Upstream) {
	p := harness.PoolOf(1, 1, 1, 1)
	p.Affinity = affinity
	handlers := map[string]http.Handler{}
	for i := range p.Upstreams {
		u := harness.NewUpstream(t, mock.Config{})
		p.Upstreams[i].Name = "up" + strconv.Itoa(i)
		handlers[p.Upstreams[i].Name] = u
		list = append(list, u)
	}
	return harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: handlers}), list
}

// visited are the upstreams that had calls since the last time, and forgets them.
func visited(list []*harness.Upstream) (some []int) {
	for i, u := range list {
		if u.Calls.Swap(0) > 0 {
			some = append(some, i)
		}
	}
	return some
}

// Calls of one conversation go to one upstream, however their client names it, and conversations to all upstreams. Calls
// that name none are spread.
func TestAffinity_Sessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, list := ups(t, "")
		ways := map[string]func(id string) (path, body string, header []string){
			"no name": func(string) (string, string, []string) { return "/chat/completions", harness.Chat(false, 5, ""), nil },
			"a key of the cache": func(id string) (string, string, []string) {
				return "/chat/completions", harness.Chat(false, 5, `,"prompt_cache_key":"`+id+`"`), nil
			},
			"Claude Code's user": func(id string) (string, string, []string) {
				return "/messages", harness.Chat(true, 5, `,"metadata":{"user_id":"user_1_account_2_session_`+id+`"}`), nil
			},
		}
		for _, name := range []string{"X-Llmgov-Session", "X-Claude-Code-Session-Id", "session-id", "session_id", "conversation_id", "x-session-affinity", "x-session-id", "x-opencode-session"} {
			ways[name] = func(id string) (string, string, []string) {
				return "/chat/completions", harness.Chat(false, 5, ""), []string{name, id}
			}
		}
		for _, way := range slices.Sorted(maps.Keys(ways)) {
			homes := map[int]bool{}
			for session := range 16 {
				for call := range 4 {
					path, body, header := ways[way](fmt.Sprint("s-", session))
					s.CallTo(t.Context(), path, "a", body, header...).WantOK(t, way, "call", call)
				}
				at := visited(list)
				for _, i := range at {
					homes[i] = true
				}
				if want := map[bool]int{true: 4, false: 1}[way == "no name"]; len(at) != want {
					t.Errorf("%s: calls of session %d went to upstreams %v, want %d", way, session, at, want)
				}
			}
			if len(homes) != 4 {
				t.Errorf("%s: the sessions went to %d upstreams of 4", way, len(homes))
			}
		}
	})
}

// With affinity: messages, conversations that nobody names are known by their first messages; with none, even those with
// a name are spread.
func TestAffinity_Modes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for affinity, want := range map[tenants.Affinity]int{tenants.AffinityMessages: 1, tenants.AffinityNone: 4} {
			s, list := ups(t, affinity)
			for session := range 8 {
				first := fmt.Sprintf(`{"role":"user","content":"Question %d"}`, session)
				later := first
				for range 4 {
					body := `{"model":"m","messages":[` + later + `],"max_tokens":5}`
					header := []string{}
					if affinity == tenants.AffinityNone {
						header = []string{"X-Llmgov-Session", "s"}
					}
					s.Call(t.Context(), "a", body, header...).WantOK(t)
					later += `,{"role":"assistant","content":"Well."},{"role":"user","content":"And?"}`
				}
				if at := visited(list); len(at) != want {
					t.Errorf("%s: a conversation went to upstreams %v, want %d", affinity, at, want)
				}
			}
			s.Close()
		}
	})
}

// A conversation whose upstream fails or is busy goes on at one other, also the call that failed there, and comes home
// when it works again.
func TestAffinity_GoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, list := ups(t, "")
		call := func() []int {
			t.Helper()
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""), "X-Llmgov-Session", "s").WantOK(t)
			return visited(list)
		}
		home := call()[0]
		list[home].AnswerWith(harness.Status(429, "retry-after", "10"))
		at := call()
		if len(at) != 2 || !slices.Contains(at, home) {
			t.Fatalf("the call that its home %d refused went to %v", home, at)
		}
		next := at[0] + at[1] - home
		list[home].AnswerWith(nil)
		if at := call(); !slices.Equal(at, []int{next}) {
			t.Errorf("during the pause calls go to %v, want %d", at, next)
		}
		time.Sleep(10 * time.Second)
		if at := call(); !slices.Equal(at, []int{home}) {
			t.Errorf("behind the pause calls go to %v, want %d", at, home)
		}
	})
}

// However many calls of one conversation run, their upstream has at most its part of the calls, a quarter of that, and one
// call; and when they have ended, in whatever way, nothing of them is left.
func TestAffinity_KeepsNobodyBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, list := ups(t, "")
		for round, breaks := range []int{0, 2, 1} { // plain answers last: for those that break off, upstreams are left out
			for _, u := range list {
				u.Mock.ResetStats()
			}
			done := make(chan int)
			for i := range 40 {
				go func() {
					hang := ""
					if i%4 == breaks {
						hang = `,"mock":{"hangup_after":3,"token_ms":1000}`
					}
					done <- s.Call(t.Context(), "a", harness.Chat(i%2 == 0, 10, `,"mock":{"token_ms":1000}`+hang), "X-Llmgov-Session", "s").Status
				}()
			}
			synctest.Wait()
			most := int64(0)
			all := int64(0)
			for _, u := range list {
				most = max(most, u.Mock.Stats().Running)
				all += u.Mock.Stats().Running
			}
			if most != 14 || all != 40 {
				t.Errorf("round %d: of %d calls of a conversation %d run at one of four upstreams, want 14 of 40", round, all, most)
			}
			for range 40 {
				<-done
			}
		}
	})
}

// Upstreams with limits of their own keep conversations too, as far as they have room: a conversation with more calls than
// that goes on elsewhere at once, and none is at an upstream of a higher order while one of a lower has room.
func TestAffinity_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.PoolOf(1, 1, 1)
		p.Concurrency = 0
		handlers := map[string]http.Handler{}
		var list []*harness.Upstream
		for i := range p.Upstreams {
			u := harness.NewUpstream(t, mock.Config{FirstToken: time.Second})
			p.Upstreams[i].Name = "up" + strconv.Itoa(i)
			p.Upstreams[i].Concurrency = 2
			handlers[p.Upstreams[i].Name] = u
			list = append(list, u)
		}
		p.Upstreams[2].Order = 1
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: handlers})
		call := func(session int) {
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""), "x-llmgov-session", fmt.Sprint(session)).WantOK(t, "session", session)
		}
		homes := map[int]int{}
		for session := range 16 {
			for range 4 {
				call(session)
			}
			at := visited(list)
			if len(at) != 1 {
				t.Errorf("calls of session %d went to upstreams %v, want 1", session, at)
			}
			homes[at[0]]++
		}
		if homes[0] == 0 || homes[1] == 0 || homes[2] != 0 {
			t.Errorf("sessions went to upstreams %v, want all to the first two", homes)
		}
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() { call(0) })
		}
		calls.Wait()
		for i, u := range list {
			if n := u.Calls.Load(); n != 2 {
				t.Errorf("of six calls of a session %d went to upstream %d, which takes two", n, i)
			}
		}
	})
}
