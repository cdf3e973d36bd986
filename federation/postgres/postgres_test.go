package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

// TestMain has more tests run in parallel than there are processors, because they wait for the server.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4")
	pgtest.Main(m)
}

// patience is for how long an answer is waited for that has to come, on a machine that does much else.
const patience = time.Minute

// places counts the schemas that tests have.
var places atomic.Int64

// place is the URL of a schema of its own on the server that all tests share.
func place(t testing.TB) string {
	t.Helper()
	server := pgtest.Shared(t)
	s := testkit.Must(Open(server.URL(), federation.DefaultRules()))(t)
	defer s.Close()
	schema := fmt.Sprint("place", places.Add(1))
	exec(t, s, "CREATE SCHEMA "+schema)
	return server.URL() + "&search_path=" + schema
}

// open opens a store whose transactions are as patient as the tests.
func open(t testing.TB, url string) *Store {
	t.Helper()
	s := testkit.Must(Open(url, federation.DefaultRules()))(t)
	t.Cleanup(s.Close)
	s.limits = strings.NewReplacer("'1000'", "'60000'", "'1500'", "'60000'").Replace(limits)
	return s
}

// guest makes a user who may use a place, but may make nothing there, and returns the place's URL for it.
func guest(t *testing.T, s *Store, url string) (name, as string) {
	t.Helper()
	_, schema, _ := strings.Cut(url, "search_path=")
	name = "guest_of_" + schema
	exec(t, s, "CREATE ROLE "+name+" LOGIN")
	exec(t, s, "GRANT USAGE ON SCHEMA "+schema+" TO "+name)
	return name, strings.Replace(url, "llmgov@", name+"@", 1)
}

func exec(t testing.TB, s *Store, sql string, args ...any) {
	t.Helper()
	testkit.Must(s.db.Exec(context.Background(), sql, args...))(t)
}

// gateways are the stores of several gateways, which take turns.
type gateways struct {
	stores []*Store
	turn   atomic.Int64
}

func newGateways(t *testing.T, n int) *gateways {
	url := place(t)
	g := &gateways{}
	for range n {
		g.stores = append(g.stores, open(t, url))
	}
	return g
}

func (g *gateways) setClock(now int64) {
	for _, s := range g.stores {
		s.clock = fmt.Sprint(now, "::bigint")
	}
}

func (g *gateways) replace(incarnation string) {
	for _, s := range g.stores {
		s.incarnation = "'" + incarnation + "'"
	}
}

func (g *gateways) next() *Store { return g.stores[int(g.turn.Add(1))%len(g.stores)] }

func (g *gateways) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	return g.next().Beat(ctx, pool, b)
}

func (g *gateways) Look(ctx context.Context, pool string) (federation.View, error) {
	return g.next().Look(ctx, pool)
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	storetest.RunDocuments(t, s)
	storetest.RunSpend(t, s)
}

// TestStore: the suite, with gateways that know no logs and with some that do.
func TestStore(t *testing.T) {
	t.Run("Accounts", func(t *testing.T) { t.Parallel(); runSuite(t, 1, 1) })
	t.Run("Logs", func(t *testing.T) { t.Parallel(); runSuite(t, federation.Format, 3) })
}

func runSuite(t *testing.T, format, processes int) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		g := newGateways(t, processes)
		s := g.stores[0]
		return storetest.Harness{
			Store: g, Fewer: 8, Rules: s.rules, Format: format, SetClock: g.setClock,
			Replace: g.replace,
			Save: func() func() {
				exec(t, s, "CREATE TABLE saved AS SELECT * FROM llmgov_pools")
				return func() {
					exec(t, s, "UPDATE llmgov_pools p SET account = s.account FROM saved s WHERE s.pool = p.pool")
				}
			},
			Declare: func(pool string) error { return g.next().Declare(context.Background(), pool) },
			Damage:  func(with string) { exec(t, s, "UPDATE llmgov_pools SET account = $1", []byte(with)) },
			Delete: func(advice string) {
				_, sql, _ := strings.Cut(advice, "(DELETE")
				sql, _, found := strings.Cut(sql, ");")
				if !found {
					t.Fatalf("the error does not say what to delete: %s", advice)
				}
				exec(t, s, "DELETE"+sql)
			},
		}
	})
}

// join is the first beat of a node.
func join(node string) *federation.Beat {
	return &federation.Beat{
		Node: node, Instance: node, Join: true, Seq: 1, Full: true, Expect: 1, Format: federation.Format,
		Limits: federation.Amounts{60_000, 0}, Ready: federation.Amounts{100, 1},
	}
}

func beat(t *testing.T, s *Store, b *federation.Beat) federation.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return testkit.Must(s.Beat(ctx, "p", b))(t)
}

// TestIncarnation: a restart of the server keeps the memory, of pools and of owners; a replica that takes over
// begins a new one, for it may lack what was confirmed last.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t)
	s := open(t, server.URL())
	first := beat(t, s, join("a"))
	if part, err := share(s, "o", "a", 1); err != nil || part != 10 {
		t.Fatal(part, err)
	}
	server.Stop()
	if _, err := s.Beat(context.Background(), "p", join("b")); err == nil {
		t.Fatal("a server that does not run has answered")
	}
	if _, err := share(s, "o", "b", 1); err == nil {
		t.Fatal("a server that does not run has answered")
	}
	server.Start()
	if r := beat(t, s, join("b")); r.Epoch != first.Epoch {
		t.Fatalf("after a restart: %+v, want the epoch of %+v", r, first)
	}
	if part, err := share(s, "o", "b", 1); err != nil || part != 0 {
		t.Fatalf("after a restart there is %d of the limit left, %v", part, err)
	}
	replica := server.Replica()
	standby := open(t, replica.URL())
	if _, err := standby.Beat(context.Background(), "p", join("c")); err == nil {
		t.Fatal("a standby has booked a beat")
	}
	replica.Promote()
	if r := beat(t, standby, join("c")); r.Epoch <= first.Epoch {
		t.Fatalf("after a promotion: %+v, want a later epoch than %d", r, first.Epoch)
	}
}

// TestStuck: who stops in the middle of a beat does not keep the pool from the others.
func TestStuck(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	beat(t, s, join("a"))
	s.limits = limits
	conn := testkit.Must(s.db.Acquire(context.Background()))(t)
	defer conn.Release()
	testkit.Must(s.lock(context.Background(), conn, "p"))(t)
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := s.Beat(ctx, "p", join("b"))
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the pool is stuck: %v", err)
		}
	}
}

// TestTable: it is made once, by whoever comes first, again if it was dropped, and by
// nobody who has it already.
func TestTable(t *testing.T) {
	t.Parallel()
	url := place(t)
	errs := make(chan error, 8)
	for i := range cap(errs) {
		s := open(t, url)
		go func() {
			_, err := s.Beat(context.Background(), "p", join(fmt.Sprint(i)))
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	s := open(t, url)
	beat(t, s, join("x"))
	beat(t, open(t, url+"&default_transaction_read_only=on"), join("x"))
	exec(t, s, "DROP TABLE llmgov_pools")
	beat(t, s, join("y"))

	name, as := guest(t, s, url)
	exec(t, s, "GRANT SELECT, INSERT, UPDATE ON llmgov_pools TO "+name)
	beat(t, open(t, as), join("z"))
	exec(t, s, "DROP TABLE llmgov_pools")
	if _, err := open(t, as).Beat(context.Background(), "p", join("z")); err == nil || !strings.Contains(err.Error(), "cannot make the table llmgov_pools") {
		t.Errorf("without the right to make the table: %v", err)
	}
}

// TestForeign: an account of another release is left alone.
func TestForeign(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	beat(t, s, join("a"))
	other := testkit.Must(federation.NewAccount(federation.Rules{Window: time.Minute, Slots: 3}, 0, federation.Options{}).Encode())(t)
	for _, foreign := range []string{"\x01", string(other), "\x02{", "{"} {
		exec(t, s, "UPDATE llmgov_pools SET account = $1", []byte(foreign))
		if _, err := s.Beat(context.Background(), "p", join("b")); err == nil {
			t.Errorf("%q was taken for an account", foreign)
		}
		var kept []byte
		if err := s.db.QueryRow(context.Background(), "SELECT account FROM llmgov_pools").Scan(&kept); err != nil || string(kept) != foreign {
			t.Errorf("it is %q now, %v", kept, err)
		}
	}
}

// BenchmarkBeat: what a beat takes, of three nodes with so many tenants that ask.
func BenchmarkBeat(b *testing.B) {
	url := place(b)
	for _, tenants := range []int{10, 100, 1000, 4096} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			s := open(b, url)
			for n := 0; b.Loop(); n++ {
				next := join(fmt.Sprint("n", n%3))
				next.Seq = int64(1 + n/3)
				next.Acked = next.Seq - 1
				next.Join = n < 3
				next.Full = n < 3
				for i := range tenants {
					next.Demands = append(next.Demands, federation.Demand{Path: fmt.Sprint("tenant-", i), Rate: int64(n + i)})
				}
				testkit.Must(s.Beat(context.Background(), fmt.Sprint("p", tenants), next))(b)
			}
		})
	}
}

// stored is a pool's row as a gateway reads it that knows no logs, and whether there is more in it.
func stored(t *testing.T, s *Store) (a *federation.Account, isLog bool) {
	t.Helper()
	var row []byte
	testkit.OK(t, s.db.QueryRow(t.Context(), "SELECT account FROM llmgov_pools WHERE pool = 'p'").Scan(&row))
	a = testkit.Must(federation.Decode(row, s.rules))(t)
	return a, bytes.Contains(row, mark)
}

// gateway makes beats of one gateway, which used something in one slot.
type gateway struct {
	federation.Beat
	s    *Store
	copy *federation.Copy
}

func newGateway(s *Store, name string, used int64) *gateway {
	g := &gateway{Beat: *join(name), s: s}
	g.Booked = []federation.Booked{{Slot: begins / 250, Used: federation.Amounts{used, 1}}}
	g.Seq = 0
	return g
}

// begins is the store's clock in these tests.
const begins = int64(1_700_000_000_000)

func (g *gateway) beat(t *testing.T) federation.Reply {
	t.Helper()
	b := g.Beat
	g.Seq++
	b.Seq = g.Seq
	b.Sent = begins
	if b.Full && !b.Join {
		b.Copy = g.copy
	}
	r := beat(t, g.s, &b)
	g.Epoch = r.Epoch
	switch r.Status {
	case federation.Granted, federation.Learning:
		g.Join = false
		g.Full = false
		g.Acked = r.Seq
		if r.Digest != nil {
			g.copy = &federation.Copy{Digest: r.Digest}
		}
	case federation.Resend:
		g.Full = true
	}
	return r
}

// TestLog_EarlierRelease: for a gateway that knows no logs the account is one whose memory was lost, so it grants nothing
// of it before it knows what was used. As long as it is there, all write plain accounts, and log again afterwards.
func TestLog_EarlierRelease(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	s.incarnation = "'server'"
	at := func(ms int64) { s.clock = fmt.Sprint(begins+ms, "::bigint") }
	at(0)
	g := newGateway(s, "new", 700)
	for range 60 { // so that the log begins with an account that has beats
		g.beat(t)
	}
	at(1000)
	g.Full = true
	if r := g.beat(t); r.Status != federation.Granted || r.Used[0] != 700 {
		t.Fatalf("answered %s, used %v", r.Status, r.Used)
	}

	at(2000)
	a, isLog := stored(t, s)
	if !isLog || a.Members["new"] == nil {
		t.Fatalf("the row is no log, or one without an account: %v", a.Members)
	}
	old := join("old")
	old.Format = 2
	if r := a.Beat(begins+2000, "server", 1, old); r.Status != federation.Learning || !a.Lost {
		t.Fatalf("a gateway that knows no logs is answered %s, lost %v", r.Status, a.Lost)
	}
	row := testkit.Must(a.Encode())(t)
	exec(t, s, "UPDATE llmgov_pools SET account = $1", row)

	for _, want := range []federation.Status{federation.Resend, federation.Granted} {
		if r := g.beat(t); r.Status != want || want == federation.Granted && r.Used[0] < 700 {
			t.Fatalf("answered %s, used %v; want %s", r.Status, r.Used, want)
		}
		if _, isLog := stored(t, s); isLog {
			t.Error("it is a log, while a gateway is there that knows none")
		}
	}
	for later := int64(1); later <= 3; later++ {
		at(2000 + 31_000*later)
		g.beat(t)
	}
	if _, isLog := stored(t, s); !isLog {
		t.Error("it is no log, although all gateways know it")
	}
	at(100_000)
	if r := g.beat(t); r.Status != federation.Granted {
		t.Errorf("answered %s after it became a log", r.Status)
	}
}

// TestLog_DamagedBeat: a beat of which a byte has changed is not taken for another one.
func TestLog_DamagedBeat(t *testing.T) {
	k := nothing[*poolAccount]()
	k.account = &poolAccount{Account: federation.NewAccount(federation.DefaultRules(), begins, federation.Options{Incarnation: "s", Fresh: true})}
	whole := written(t, 1, begins)
	beat := whole[12 : len(whole)-len(mark)-len("s")]
	for i := range beat {
		beat[i] ^= 1
		if err := k.follow(whole); !errors.Is(err, federation.ErrDamaged) {
			t.Errorf("byte %d: %v", i, err)
		}
		beat[i] ^= 1
	}
	if err := k.follow(whole); err != nil {
		t.Error(err)
	}
}

// BenchmarkFollow: what it takes a gateway to take in a beat of each of so many gateways, as it does once a second. Each is
// asked for by 20 tenants.
func BenchmarkFollow(b *testing.B) {
	for _, gateways := range []int{4, 16, 64, 250} {
		b.Run(fmt.Sprint(gateways), func(b *testing.B) {
			k := nothing[*poolAccount]()
			k.account = &poolAccount{Account: federation.NewAccount(federation.DefaultRules(), begins, federation.Options{Incarnation: "s", Fresh: true})}
			var size int
			for now := begins; b.Loop(); now += 1000 {
				var log []byte
				for i := range gateways {
					log = append(log, written(b, i, now)...)
				}
				size = len(log)
				testkit.OK(b, k.follow(log))
			}
			b.ReportMetric(float64(size), "bytes/op")
		})
	}
}

// written is the beat of a gateway in a log.
func written(b testing.TB, i int, now int64) []byte {
	m := *join(fmt.Sprint("gateway-", i))
	m.Seq = 1 + (now-begins)/1000
	m.Join = m.Seq == 1
	m.Acked = m.Seq - 1
	m.Epoch = begins
	m.Sent = now
	m.Booked = []federation.Booked{{Slot: now/250 - 1, Used: federation.Amounts{100, 1}}, {Slot: now / 250, Used: federation.Amounts{50, 1}}}
	for n := range 64 {
		m.Curve = append(m.Curve, federation.Point{Level: float64(n * 1000), Use: [2]float64{float64(n * i), float64(n)}})
	}
	for n := range 20 {
		m.Demands = append(m.Demands, federation.Demand{Path: fmt.Sprint("tier/tenant-", n), Rate: int64(n * 1000)})
	}
	beat := testkit.Must(encodeBeat(&m))(b)
	out := binary.BigEndian.AppendUint64(nil, uint64(now))
	out = binary.BigEndian.AppendUint32(out, uint32(len(beat)))
	out = append(out, beat...)
	out = append(out, "s"...)
	return append(out, mark...)
}
