package redis

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
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

func TestFirst(t *testing.T) {
	t.Parallel()
	storetest.First(t, open(t, redistest.New(t).URL()).First)
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

// TestFormat_EarlierRelease: a member that was written without its format, as earlier releases do, counts as one of format 1.
func TestFormat_EarlierRelease(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t).URL())
	ctx := context.Background()
	beat := func(node string, seq int64) int {
		t.Helper()
		r := testkit.Must(s.Beat(ctx, "p", &federation.Beat{Node: node, Instance: node, Join: true, Seq: seq, Format: 2}))(t)
		return r.Format
	}
	beat("a", 1)
	if got := beat("b", 1); got != 2 {
		t.Errorf("among nodes of format 2 it is %d", got)
	}
	member := testkit.Must(s.client.HGet(ctx, key("p"), "n:b").Result())(t)
	testkit.OK(t, s.client.HSet(ctx, key("p"), "n:b", member[:len(member)-12]).Err())
	if got := beat("a", 2); got != 1 {
		t.Errorf("beside a node that names none it is %d", got)
	}
	if got := beat("b", 2); got != 2 {
		t.Errorf("when that node names it again it is %d", got)
	}
}

// TestFirstRelease: accounts that the first release wrote go on, and what its gateways have used counts.
func TestFirstRelease(t *testing.T) {
	t.Parallel()
	text := testkit.Must(os.ReadFile("testdata/first.json"))(t)
	var written struct {
		Pool   map[string][]byte
		Limits []byte
	}
	testkit.OK(t, json.Unmarshal(text, &written))
	s := open(t, redistest.New(t).URL())
	s.use(saidServer, saidClock)
	do(t, s, "HSET", "said", "now", 1_700_000_000_500, "incarnation", "first")
	for field, value := range written.Pool {
		do(t, s, "HSET", key("p"), field, value)
	}
	do(t, s, "SET", partsKey("acme"), written.Limits)
	ctx := context.Background()
	r, err := s.Beat(ctx, "p", &federation.Beat{
		Node: "a", Instance: "a", Seq: 3, Acked: 2, Epoch: 1_700_000_000_000, Sent: 1_700_000_000_400, Joined: 1_700_000_000_000, Expect: 2,
		Limits: federation.Amounts{600_000, 600}, Held: federation.Amounts{300, 1}, Format: federation.Format,
	})
	if err != nil || r.Status != federation.Granted || r.Used != (federation.Amounts{14_600, 16}) || r.Format != 1 {
		t.Errorf("%s, used %v, format %d, %v", r.Status, r.Used, r.Format, err)
	}
	replies, err := s.Share(ctx, []*parts.Beat{{Owner: "acme", Instance: "a", Seq: 2, Claims: []parts.Claim{
		{Name: "minute", Kind: parts.Rolling, Limit: 100, Used: 10, Part: 20, Want: 20},
		{Name: "month", Kind: parts.Period, Limit: 1000, Ends: 1_800_000_000_000, Used: 30, Part: 40, Want: 40},
		{Name: "slots", Kind: parts.Slots, Limit: 8, Used: 2, Part: 2, Want: 3, Tail: 4000},
	}}})
	if err != nil || len(replies[0].Parts) != 3 {
		t.Fatalf("%+v, %v", replies, err)
	}
	for i, want := range []int64{10, 30, 2} {
		if got := replies[0].Parts[i].Others; got != want {
			t.Errorf("others have used %d of limit %d, want %d", got, i, want)
		}
	}
}

// TestDigest_Impossible: what no memory can have made is as good as no digest.
func TestDigest_Impossible(t *testing.T) {
	t.Parallel()
	const rest = "version = 1, epoch = 5, turn = 1, now = 100000, limits = {100, 10}, may = {1, 1}, refundable = {1, 1}, gone = {from = 0, used = {{}, {}}}"
	s := open(t, redistest.New(t).URL())
	for what, digest := range map[string]string{
		"a digest":                   "held = {1, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"less than nothing":          "held = {-1, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"more than can be":           "held = {1e300, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"no number":                  "held = {0/0, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"nothing held":               "booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"less than nothing used":     "held = {1, 1}, booked = {from = 399, used = {{1, -2}, {1, 1}}}",
		"slots of one axis only":     "held = {1, 1}, booked = {from = 399, used = {{1, 2}, {1}}}",
		"slots far ahead":            "held = {1, 1}, booked = {from = 399000, used = {{1, 2}, {1, 1}}}",
		"something else than a book": "held = {1, 1}, booked = 7",
	} {
		do(t, s, "FLUSHALL")
		text := do(t, s, "EVAL", "return cmsgpack.pack({"+rest+", "+digest+"})", 0).(string)
		b := &federation.Beat{
			Node: "n", Instance: "n", Join: true, Seq: 1, Epoch: 5, Limits: federation.Amounts{100, 10},
			Copy: &federation.Copy{Digest: []byte(text)},
		}
		r, err := s.Beat(context.Background(), "p", b)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if taken := r.Until-r.Now == 2500; taken != (what == "a digest") {
			t.Errorf("%s: it is taken: %v", what, taken)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url   string
		hosts string
		want  address
	}{
		{"redis://h", "h:6379", address{}},
		{"redis://u:p%40@h:1/2", "h:1", address{user: "u", password: "p@", db: 2}},
		{"redis://:p@h/", "h:6379", address{password: "p"}},
		{"redis://a,b:7", "a:6379 b:7", address{cluster: true}},
		{"redis://a:1,b:7", "a:1 b:7", address{cluster: true}},
		{"redis://u:p@h?cluster=true", "h:6379", address{user: "u", password: "p", cluster: true}},
		{"redis://[::1]:5", "[::1]:5", address{}},
		{"redis://[::1]", "[::1]:6379", address{}},
		{"redis+sentinel://u:p@a,b:7/3?master=m&sentinel_user=x&sentinel_password=y", "a:26379 b:7", address{
			user: "u", password: "p", db: 3, sentinel: true, master: "m", sentinelUser: "x", sentinelPassword: "y",
		}},
	} {
		got, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if hosts := strings.Fields(c.hosts); !slices.Equal(got.hosts, hosts) {
			t.Errorf("%s: hosts %v, want %v", c.url, got.hosts, hosts)
		}
		got.hosts = nil
		if !equal(got, &c.want) {
			t.Errorf("%s: %+v, want %+v", c.url, got, c.want)
		}
	}
	for _, scheme := range []string{"rediss", "rediss+sentinel"} {
		if a, err := parse(scheme + "://h?server_name=x" + map[string]string{"rediss+sentinel": "&master=m"}[scheme]); err != nil || a.tls == nil || a.tls.ServerName != "x" {
			t.Errorf("%s: %+v, %v", scheme, a, err)
		}
	}
}

func equal(a, b *address) bool {
	return a.user == b.user && a.password == b.password && a.db == b.db && a.cluster == b.cluster && a.sentinel == b.sentinel &&
		a.master == b.master && a.sentinelUser == b.sentinelUser && a.sentinelPassword == b.sentinelPassword && a.tls == nil
}

// TestURL: what is wrong with an address is said without its password.
func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:secret@h:port":          "not a URL",
		"http://u:secret@h":                "http:// is not a scheme",
		"redis://u:secret@":                "a host is missing",
		"redis://u:secret@a,,b":            "a host is missing",
		"redis://u:secret@h/x":             "/x is not the number of a database",
		"redis://u:secret@h/-1":            "/-1 is not the number of a database",
		"redis://u:12/secret@h":            "has an @ behind its host",
		"redis://u:12?secret@h":            "has an @ behind its host",
		"redis://u:secret@a,b/1":           "database 0 only",
		"redis+sentinel://u:secret@h":      "belong together",
		"redis://u:secret@h?master=m":      "belong together",
		"redis://u:secret@h?ca=x":          "?ca= says nothing in this address",
		"rediss://u:secret@h?ca=/none":     "/none: no such file",
		"rediss://u:secret@h?cert=/none":   "/none: no such file",
		"redis://u:secret@h?pool_size=100": "?pool_size= says nothing",
	} {
		_, err := Open(url, federation.DefaultRules(), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	s, _ := databases(t)(t)
	storetest.RunDocuments(t, s)
	storetest.RunSpend(t, s)
}

func TestParts(t *testing.T) {
	t.Parallel()
	next := databases(t)
	storetest.RunParts(t, func(t *testing.T) storetest.PartsHarness {
		s, setClock := next(t)
		return storetest.PartsHarness{
			Store: s, Fewer: 4, SetClock: setClock,
			Replace:      func(incarnation string) { do(t, s, "HSET", "said", "incarnation", incarnation) },
			DeclareOwner: func(owner string) (bool, error) { return s.DeclareOwner(context.Background(), owner) },
			Damage:       func(owner, with string) { do(t, s, "SET", partsKey(owner), with) },
			Delete:       func(owner string) { do(t, s, "DEL", partsKey(owner)) },
		}
	})
}

// periodEnds is when periods end: in an hour or so.
var periodEnds = time.Now().Add(time.Hour).UnixMilli()

// share tells beats of one process of many owners, and returns the parts that it gets of 10.
func share(s *Store, instance string, seq int64, kind parts.Kind, owners ...string) (got []int64, err error) {
	var batch []*parts.Beat
	for _, o := range owners {
		batch = append(batch, &parts.Beat{Owner: o, Instance: instance, Seq: seq, Claims: []parts.Claim{
			{Name: "x", Kind: kind, Limit: 10, Ends: periodEnds, Want: 10},
		}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := s.Share(ctx, batch)
	for i := range r {
		part := int64(-1) // no answer
		if len(r[i].Parts) > 0 {
			part = r[i].Parts[0].Part
		}
		got = append(got, part)
	}
	return got, err
}

func wantParts(t *testing.T, got []int64, err error, want ...int64) {
	t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
}

// TestParts_Life: scripts that were flushed are sent again; keys expire when nothing counts any
// more, and a minute has passed in which they may be told of again; what is not ours is left alone.
func TestParts_Life(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t).URL())
	got, err := share(s, "a", 1, parts.Rolling, "p", "q")
	wantParts(t, got, err, 10, 10)
	do(t, s, "SCRIPT", "FLUSH")
	got, err = share(s, "b", 1, parts.Rolling, "p", "q", "r")
	wantParts(t, got, err, 0, 0, 10)
	for kind, want := range map[parts.Kind]int64{parts.Slots: 62_502, parts.Rolling: 122_502, parts.Period: 120_002} {
		began := time.Now()
		got, err = share(s, "a", 1, kind, string(kind))
		wantParts(t, got, err, 10)
		ms := do(t, s, "PTTL", partsKey(string(kind))).(int64)
		if kind == parts.Period {
			want += periodEnds - began.UnixMilli()
		}
		took := time.Since(began).Milliseconds() + 5 // with what is lost to rounding
		if ms > want || ms < want-2*took {           // the time until the script looked at the clock, and from then on
			t.Errorf("%s is kept for %d ms, %d ms after it was told of; want %d", kind, ms, took, want)
		}
	}
	do(t, s, "FLUSHALL")
	got, err = share(s, "b", 2, parts.Rolling, "p")
	wantParts(t, got, err, 10)
	for _, foreign := range []string{"\x94\x01\x01\x01\x90", "\x01"} {
		do(t, s, "SET", partsKey("q"), foreign)
		if _, err := share(s, "b", 1, parts.Rolling, "p", "q"); !errors.Is(err, federation.ErrEncoding) {
			t.Errorf("of another release: %v", err)
		}
		if kept := do(t, s, "GET", partsKey("q")); kept != foreign {
			t.Errorf("it is %q now", kept)
		}
	}
}

// TestParts_Cluster: owners lie on different nodes, also when the scripts are not there yet.
func TestParts_Cluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3)
	s := open(t, "redis://"+nodes[0].Addr()+","+nodes[1].Addr())
	owners := []string{}
	want := []int64{}
	for i := range 12 {
		owners = append(owners, fmt.Sprintf("{%d", i))
		want = append(want, 10)
	}
	got, err := share(s, "a", 1, parts.Rolling, owners...)
	wantParts(t, got, err, want...)
	clear(want)
	got, err = share(s, "b", 1, parts.Rolling, owners...)
	wantParts(t, got, err, want...)
	for i := range 12 { // one step over several owners
		tenant := fmt.Sprintf("{%d}", i)
		q := &parts.Ask{Calls: []parts.Call{nil}}
		for i, owner := range []string{tenant + "/t in p", tenant + "/t", tenant + " in p", tenant} {
			q.Beats = append(q.Beats, &parts.Beat{Owner: owner, Instance: "a", Seq: 1, Claims: []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 10}}})
			q.Calls[0] = append(q.Calls[0], parts.Take{Beat: i, Amount: 1})
		}
		if ans, err := s.Ask(context.Background(), q); err != nil || !ans.Verdicts[0].In {
			t.Errorf("of %s it is answered %+v, %v", tenant, ans, err)
		}
	}
	for _, n := range nodes {
		if n.Do("DBSIZE") == "0" {
			t.Errorf("of %v none is at %s", owners, n.Addr())
		}
	}
}

// An account that is damaged, in whatever way, is left as it is, nothing is granted of it, and the error
// says which key to delete.
func TestAudit_L5_DamagedAccountsSayWhatToDelete(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t).URL())
	beat(t, s, join("a"))
	for name, damage := range map[string]func(key string){
		"garbage in a hash": func(key string) { do(t, s, "DEL", key); do(t, s, "HSET", key, "account", "garbage") },
		"another type":      func(key string) { do(t, s, "DEL", key); do(t, s, "LPUSH", key, "garbage") },
		"garbage":           func(key string) { do(t, s, "SET", key, "garbage") },
		"hardly begun":      func(key string) { do(t, s, "SET", key, "\x94\x02\x01\x01\xa1x") }, // {2, 1, 1, "x"}
	} {
		for _, key := range []string{key("p"), partsKey("q")} {
			damage(key)
			kept := do(t, s, "DUMP", key)
			_, err := beatOn(s, "p", join("b"))
			if key != "llmgov:{p}" {
				var got []int64
				got, err = share(s, name, 1, parts.Rolling, "p", "q", "r")
				if len(got) != 3 || got[0] < 0 || got[1] >= 0 || got[2] < 0 {
					t.Errorf("%s in %s: granted are %v", name, key, got)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "DEL '"+key+"'") || !errors.Is(err, federation.ErrDamaged) && !errors.Is(err, federation.ErrEncoding) {
				t.Errorf("%s in %s: %v", name, key, err)
			}
			if do(t, s, "DUMP", key) != kept {
				t.Errorf("%s in %s was changed", name, key)
			}
			do(t, s, "DEL", key)
		}
	}
}
