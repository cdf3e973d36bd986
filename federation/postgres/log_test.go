package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit"
)

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

// TestLog_Bounded: a log begins anew before it is long, also if several gateways write it, each of which knows a part.
func TestLog_Bounded(t *testing.T) {
	t.Parallel()
	url := place(t)
	var all []*gateway
	for i := range 3 {
		all = append(all, newGateway(open(t, url), fmt.Sprint("n", i), 1))
	}
	longest := 0
	for n := range 150 {
		g := all[n%len(all)]
		if n%7 == 0 {
			g = all[0]
		}
		g.beat(t)
		var length int
		testkit.OK(t, g.s.db.QueryRow(t.Context(), "SELECT octet_length(account) FROM llmgov_pools").Scan(&length))
		longest = max(longest, length)
	}
	t.Logf("the longest row has %d bytes", longest)
	if longest < poolsTable.least || longest > 3*poolsTable.least {
		t.Errorf("the longest row has %d bytes", longest)
	}
}

// TestLog_OneShortens: one gateway sends the account that is to begin a log, and not all of them, and the log becomes shorter.
func TestLog_OneShortens(t *testing.T) {
	t.Parallel()
	url := place(t)
	var all []*gateway
	for i := range 4 {
		all = append(all, newGateway(open(t, url), fmt.Sprint("n", i), 1))
	}
	shorter := 0
	before := 0
	for n := range 100 {
		all[n%len(all)].beat(t)
		var about []string
		for _, g := range all {
			if k := g.s.pools.all["p"]; k != nil && k.long(poolsTable.least) {
				about = append(about, g.Node)
			}
		}
		if len(about) > 1 {
			t.Fatalf("after %d beats %v are about to send the account", n+1, about)
		}
		if all[n%len(all)].s.pools.all["p"].length < before {
			shorter++
		}
		before = all[n%len(all)].s.pools.all["p"].length
	}
	if shorter == 0 {
		t.Error("the log has never become shorter")
	}
}

// TestLog_Damaged: gateways leave a damaged log alone, which would else grow with each beat, and be sent to each of them.
func TestLog_Damaged(t *testing.T) {
	t.Parallel()
	s := open(t, place(t))
	g := newGateway(s, "a", 1)
	g.beat(t)
	g.beat(t)
	exec(t, s, "UPDATE llmgov_pools SET account = overlay(account placing $1::bytea from 2)", bytes.Repeat([]byte{'x'}, 60))
	length := func() (n int) {
		testkit.OK(t, s.db.QueryRow(t.Context(), "SELECT octet_length(account) FROM llmgov_pools").Scan(&n))
		return n
	}
	once := 0
	for range 5 {
		if _, err := s.Beat(t.Context(), "p", join("b")); !errors.Is(err, federation.ErrDamaged) {
			t.Fatal(err)
		}
		if once == 0 {
			once = length()
		}
	}
	if n := length(); n != once {
		t.Errorf("the log has %d bytes after one beat, and %d after more", once, n)
	}
	exec(t, s, "DELETE FROM llmgov_pools")
	if r := beat(t, s, join("b")); r.Status == "" {
		t.Error("no answer after it was deleted")
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
