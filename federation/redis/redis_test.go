package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(url, federation.DefaultRules(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func do(t testing.TB, s *Store, args ...any) any {
	t.Helper()
	v, err := s.client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// saidClock is in place of clock.lua where a test says what time it is.
const saidClock = `local function clock() return tonumber(redis.call('HGET', 'said', 'now')) end`

// saidServer is in place of server.lua where a test says what the server is.
const saidServer = `
local function server()
  local said = redis.call('HMGET', 'said', 'now', 'incarnation')
  return tonumber(said[1]), said[2], true
end`

func TestStore(t *testing.T) {
	server := redistest.New(t)
	n := 0
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := open(t, fmt.Sprintf("%s/%d", server.URL(), n))
		n++
		return storetest.Harness{
			Store: s, Rules: federation.DefaultRules(),
			SetClock: func(now int64) { s.use(saidServer, saidClock); do(t, s, "HSET", "said", "now", now) },
			Replace:  func(incarnation string) { do(t, s, "HSET", "said", "incarnation", incarnation) },
			Save: func() func() {
				do(t, s, "COPY", key("p"), "saved", "REPLACE")
				return func() { do(t, s, "COPY", "saved", key("p"), "REPLACE") }
			},
			Damage: func(with string) { do(t, s, "HSET", key("p"), "account", with) },
			Delete: func(advice string) {
				if !strings.Contains(advice, "DEL 'llmgov:{p}'") {
					t.Errorf("the error does not say what to delete: %s", advice)
				}
				do(t, s, "DEL", "llmgov:{p}")
			},
		}
	})
}

// join is the first beat of a node.
func join(node string) *federation.Beat {
	return &federation.Beat{
		Node: node, Instance: node, Join: true, Seq: 1, Full: true, Expect: 1,
		Limits: federation.Amounts{60_000, 0}, Largest: federation.Amounts{100, 1},
	}
}

func beat(t testing.TB, s *Store, b *federation.Beat) federation.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := s.Beat(ctx, "p", b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
