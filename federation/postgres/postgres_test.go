package postgres

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
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

// TestURL: what is wrong with an address is said without its password.
func TestURL(t *testing.T) {
	_, err := Open("postgres://u:secret@h:port/db", federation.DefaultRules())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
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
