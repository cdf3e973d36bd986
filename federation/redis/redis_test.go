package redis

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

// TestMain has more tests run in parallel than there are processors, because most of them wait for servers that find out about
// each other.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// patience is for how long an answer is waited for that has to come, on a machine that does much else.
const patience = time.Minute

// open opens a store that gives up only where the context of a beat says so.
func open(t testing.TB, url string) *Store {
	t.Helper()
	return openBy(t, url, federation.DefaultRules(), func(string) {})
}

func openBy(t testing.TB, url string, r federation.Rules, warn func(string)) *Store {
	t.Helper()
	a := testkit.Must(parse(url))(t)
	a.connect = time.Hour
	a.answer = time.Hour
	s := a.open(r, warn)
	t.Cleanup(s.Close)
	return s
}

func do(t testing.TB, s *Store, args ...any) any {
	t.Helper()
	return testkit.Must(s.client.Do(context.Background(), args...).Result())(t)
}

// saidClock is in place of clock.lua where a test says what time it is.
const saidClock = `local function clock() return tonumber(redis.call('HGET', 'said', 'now')) end`

// saidServer is in place of server.lua where a test says what the server is.
const saidServer = `
local function server()
  local said = redis.call('HMGET', 'said', 'now', 'incarnation')
  return tonumber(said[1]), said[2], true
end`

// databases returns stores on the databases of one server, and a function that sets the clock of a store.
func databases(t *testing.T) func(t *testing.T) (s *Store, setClock func(now int64)) {
	server := redistest.New(t)
	n := 0
	return func(t *testing.T) (*Store, func(now int64)) {
		s := open(t, fmt.Sprintf("%s/%d", server.URL(), n))
		n++
		setServer := sync.OnceFunc(func() { s.use(saidServer, saidClock) })
		return s, func(now int64) { setServer(); do(t, s, "HSET", "said", "now", now) }
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	next := databases(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s, setClock := next(t)
		return storetest.Harness{
			Store: s, Rules: federation.DefaultRules(), Fewer: 4,
			SetClock: setClock,
			Replace:  func(incarnation string) { do(t, s, "HSET", "said", "incarnation", incarnation) },
			Save: func() func() {
				do(t, s, "COPY", key("p"), "saved", "REPLACE")
				return func() { do(t, s, "COPY", "saved", key("p"), "REPLACE") }
			},
			Declare: func(pool string) error { return s.Declare(context.Background(), pool) },
			Damage:  func(with string) { do(t, s, "HSET", key("p"), "account", with) },
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
		Limits: federation.Amounts{60_000, 0}, Ready: federation.Amounts{100, 1},
	}
}

func beat(t testing.TB, s *Store, b *federation.Beat) federation.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return testkit.Must(s.Beat(ctx, "p", b))(t)
}
