package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

// sharers are the stores of gateways that know logs, all of them.
func sharers(t *testing.T, url string, n int) (list []*Store) {
	for range n {
		s := open(t, url)
		s.fleet.hear(time.Now(), true)
		list = append(list, s)
	}
	return list
}

// sharing is one gateway's side of an owner's limit of ten.
type sharing struct {
	*Store
	name string
	seq  int64
	part int64
}

// share tells that all of the limit is wanted.
func (g *sharing) share(t *testing.T, owner string) {
	t.Helper()
	g.seq++
	b := &parts.Beat{Owner: owner, Instance: g.name, Seq: g.seq, Claims: []parts.Claim{
		{Name: "x", Kind: parts.Slots, Limit: 10, Want: 10, Need: 1, Part: g.part, Used: g.part},
	}}
	r := testkit.Must(g.Share(t.Context(), []*parts.Beat{b}))(t)
	if r[0].Seq != g.seq {
		t.Fatalf("beat %d of %s is answered as %d", g.seq, g.name, r[0].Seq)
	}
	g.part = r[0].Parts[0].Part
}

// rowOf is an owner's row.
func rowOf(t *testing.T, s *Store, owner string) (account []byte) {
	t.Helper()
	testkit.OK(t, s.db.QueryRow(t.Context(), "SELECT account FROM llmgov_parts WHERE owner = $1", owner).Scan(&account))
	return account
}

// TestPartsLog_OneRoundTrip: Share takes one round trip, for owners that are new, for those that are known, and for those that others have told of
// since.
func TestPartsLog_OneRoundTrip(t *testing.T) {
	t.Parallel()
	direct := place(t)
	near := sharers(t, direct, 1)[0]
	testkit.Must(share(near, "first", "near", 1))(t) // which makes the table
	s, way := far(t, direct)
	s.fleet.hear(time.Now(), true)
	hold(t, s, 1)
	way.take()
	beats := func(seq int64) (list []*parts.Beat) {
		for i := range 200 {
			list = append(list, &parts.Beat{Owner: fmt.Sprint("o", i), Instance: "far", Seq: seq})
		}
		return list
	}
	for seq := int64(1); seq <= 4; seq++ {
		testkit.Must(s.Share(t.Context(), beats(seq)))(t)
		if got := way.take(); got != 1 {
			t.Errorf("beat %d takes %d round trips", seq, got)
		}
		testkit.Must(share(near, "o7", "near", seq))(t)
	}
}

// TestPartsLog_OfAccount: where all gateways know logs an account becomes one without a lock over a round trip, and what it knows counts.
func TestPartsLog_OfAccount(t *testing.T) {
	t.Parallel()
	direct := place(t)
	near := open(t, direct)
	has(t, near, "o", "early", 1, 10)
	s, way := far(t, direct)
	s.fleet.hear(time.Now(), true)
	hold(t, s, 1)
	way.take()
	has(t, s, "o", "far", 1, 0)
	if got := way.take(); got != 2 {
		t.Errorf("it takes %d round trips", got)
	}
	if !bytes.HasSuffix(rowOf(t, near, "o"), mark) {
		t.Error("it is no log")
	}
	testkit.Must(share(s, "o", "far", 2))(t)
	if got := way.take(); got != 1 {
		t.Errorf("the next beat takes %d round trips", got)
	}
}

// TestPartsLog_AfterMixed: a gateway that has written accounts for another format appends again when that is gone. It would take two round trips
// else, for which a store may be too far.
func TestPartsLog_AfterMixed(t *testing.T) {
	t.Parallel()
	s := sharers(t, place(t), 1)[0]
	s.fleet.hear(time.Now(), false)
	for seq := int64(1); seq <= 2; seq++ { // the first one also looks for what may be forgotten
		testkit.Must(share(s, "o", "a", seq))(t)
	}
	if s.owners.take("o").plain {
		t.Error("nothing will be appended to it any more")
	}
}

// TestPartsLog_Bounded: a log begins anew before it is long, by the one gateway whose beat was too many.
func TestPartsLog_Bounded(t *testing.T) {
	t.Parallel()
	var all []*sharing
	for i, s := range sharers(t, place(t), 4) {
		all = append(all, &sharing{Store: s, name: fmt.Sprint("g", i)})
	}
	longest := 0
	shorter := 0
	before := 0
	for n := range 200 {
		g := all[n%len(all)]
		g.share(t, "o")
		about := 0
		for _, x := range all {
			if k := x.owners.all["o"]; k != nil && k.long(partsTable.least) {
				about++
			}
		}
		if about > 1 {
			t.Fatalf("after %d beats %d gateways are about to send the account", n+1, about)
		}
		length := g.owners.all["o"].length
		longest = max(longest, length)
		if length < before {
			shorter++
		}
		before = length
	}
	t.Logf("the longest row has %d bytes; it became shorter %d times", longest, shorter)
	if shorter == 0 || longest > 3*partsTable.least {
		t.Errorf("the longest row has %d bytes; it became shorter %d times", longest, shorter)
	}
}

// TestPartsLog_Damaged: gateways leave a damaged log alone, and say how to get rid of it.
func TestPartsLog_Damaged(t *testing.T) {
	t.Parallel()
	s := sharers(t, place(t), 1)[0]
	g := &sharing{Store: s, name: "a"}
	g.share(t, "o")
	g.share(t, "o")
	exec(t, s, "UPDATE llmgov_parts SET account = overlay(account placing $1::bytea from 40)", bytes.Repeat([]byte{'x'}, 60))
	if _, err := share(s, "o", "b", 1); !errors.Is(err, federation.ErrDamaged) {
		t.Fatal(err)
	}
	once := len(rowOf(t, s, "o"))
	for i := range int64(3) {
		if _, err := share(s, "o", "b", 2); !errors.Is(err, federation.ErrDamaged) {
			t.Fatal(err)
		}
		got, err := s.Share(t.Context(), []*parts.Beat{{Owner: "o", Instance: "b", Seq: 2}, {Owner: "p", Instance: "b", Seq: 1 + i}})
		if failed, _ := errors.AsType[parts.Failures](err); len(failed) != 1 || failed[0] == nil || got[1].Seq != 1+i {
			t.Errorf("beside it there is %+v, %v", got, err)
		}
		s.owners.forget(math.MaxInt64) // as it does once a minute
	}
	if n := len(rowOf(t, s, "o")); n != once {
		t.Errorf("the log has %d bytes after one beat, and %d after more", once, n)
	}
	exec(t, s, "DELETE FROM llmgov_parts WHERE owner = 'o'")
	has(t, s, "o", "b", 3, 10)
}

// TestPartsLog_EarlierRelease: a gateway that knows no logs has an error at one, so it is granted nothing of it. As soon as a pool's account says that it is
// there, all logs become accounts that it reads, also those of owners that nobody tells of.
func TestPartsLog_EarlierRelease(t *testing.T) {
	t.Parallel()
	url := place(t)
	s := sharers(t, url, 1)[0]
	for _, owner := range []string{"busy", "rests"} {
		has(t, s, owner, "new", 1, 10)
		if _, err := parts.Decode(rowOf(t, s, owner)); !errors.Is(err, parts.ErrEncoding) {
			t.Fatalf("a gateway that knows no logs reads %v", err)
		}
		for _, first := range []byte{0xff, unread - 1} { // of logs of formats up to 8, and of the one before
			row := bytes.ReplaceAll(rowOf(t, s, owner), mark, []byte("\xffllmgov log 8\xff"))
			row[0] = first
			if _, err := s.owners.read(row); !errors.Is(err, parts.ErrEncoding) {
				t.Fatalf("of a log of another format it reads %v", err)
			}
		}
	}

	old := *join("old")
	old.Format = federation.Format - 1
	beat(t, s, join("new"))
	exec(t, s, "DELETE FROM llmgov_pools") // of which the other release makes a row of its own
	earlier := open(t, url)
	a := federation.NewAccount(earlier.rules, 0, federation.Options{Fresh: true})
	a.Beat(0, "", 1, &old)
	text := testkit.Must(a.Encode())(t)
	exec(t, s, "INSERT INTO llmgov_pools VALUES ('p', $1, now())", text)
	s.clock = "1000::bigint"
	s.incarnation = "''"
	beat(t, s, join("new"))
	for _, owner := range []string{"busy", "rests"} {
		a, err := parts.Decode(rowOf(t, s, owner))
		if err != nil {
			t.Errorf("after the pool's account has told of it: %v", err)
			continue
		}
		r := a.Beat(a.Now, &parts.Beat{Owner: owner, Instance: "old", Seq: 1, Claims: []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 10, Want: 10}}})
		if r.Parts[0].Part != 0 {
			t.Errorf("it is granted %d, of which another gateway has all", r.Parts[0].Part)
		}
	}
	testkit.Must(share(s, "busy", "new", 2))(t)
	if _, err := parts.Decode(rowOf(t, s, "busy")); err != nil {
		t.Errorf("it is a log again while the other gateway is there: %v", err)
	}
}

// TestPartsLog_LastLeaves: the last gateway that ends in order leaves an account, for which no other release needs the help of this one.
func TestPartsLog_LastLeaves(t *testing.T) {
	t.Parallel()
	url := place(t)
	leave := func(s *Store, instance string) {
		t.Helper()
		b := &parts.Beat{Owner: "o", Instance: instance, Seq: 2, Left: true, Claims: []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 10, Used: 5}}}
		if r, err := s.Share(t.Context(), []*parts.Beat{b}); err != nil || r[0].Seq != 2 {
			t.Fatal(r, err)
		}
	}
	all := sharers(t, url, 2)
	for i, s := range all {
		testkit.Must(share(s, "o", fmt.Sprint("g", i), 1))(t)
	}
	leave(all[0], "g0")
	if !bytes.HasSuffix(rowOf(t, all[0], "o"), mark) {
		t.Error("it is no log any more, while there is another gateway")
	}
	for _, s := range all {
		s.clock = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3000" // when the first has not been heard of for long
	}
	leave(all[1], "g1")
	a := testkit.Must(parts.Decode(rowOf(t, all[0], "o")))(t)
	if r := a.Beat(a.Now, &parts.Beat{Owner: "o", Instance: "old", Seq: 1, Claims: []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 10, Want: 10}}}); r.Parts[0].Part != 0 {
		t.Errorf("of what both used %d is granted", r.Parts[0].Part)
	}
}

// TestPartsLog_Forgotten: a gateway forgets logs of owners that it has not told of for a while, and rows are kept as long as something counts.
func TestPartsLog_Forgotten(t *testing.T) {
	t.Parallel()
	s := sharers(t, place(t), 1)[0]
	at := func(ms int64) { s.clock = fmt.Sprint(begins+ms, "::bigint") }
	left := func() (names string) {
		t.Helper()
		testkit.OK(t, s.db.QueryRow(t.Context(), "SELECT string_agg(owner, ' ' ORDER BY owner) FROM llmgov_parts").Scan(&names))
		return names
	}
	tell := func(owner string, seq int64) {
		t.Helper()
		testkit.Must(share(s, owner, "a", seq))(t)
	}
	at(0)
	tell("counts", 1)
	for seq := int64(1); seq <= 4; seq++ {
		at(seq * 30_000)
		tell("busy", seq)
	}
	if names := left(); names != "busy counts" {
		t.Errorf("there are rows of %q while something counts", names)
	}
	at(190_000)
	tell("busy", 5)
	at(191_000)
	tell("busy", 6)
	if names := left(); names != "busy" || len(s.owners.all) != 1 {
		t.Errorf("there are rows of %q, and %d replicas", names, len(s.owners.all))
	}
}

// BenchmarkShare: what a beat of 256 owners takes, of so many gateways each of which tells of all of them once a second.
func BenchmarkShare(b *testing.B) {
	for _, gateways := range []int{1, 3, 16} {
		b.Run(fmt.Sprint(gateways), func(b *testing.B) {
			url := place(b)
			var all []*Store
			for range gateways {
				s := open(b, url)
				s.fleet.hear(time.Now(), true)
				all = append(all, s)
			}
			for n := 0; b.Loop(); n++ {
				var beats []*parts.Beat
				for i := range 256 {
					beats = append(beats, &parts.Beat{Owner: fmt.Sprint("o", i), Instance: fmt.Sprint("i", n%gateways), Seq: int64(n + 1), Claims: []parts.Claim{
						{Name: "x", Kind: parts.Rolling, Limit: 1000, Want: 10}, {Name: "y", Kind: parts.Slots, Limit: 1000, Want: 10},
					}})
				}
				testkit.Must(all[n%gateways].Share(b.Context(), beats))(b)
			}
		})
	}
}

// TestPartsLog_ClockAhead: after the server's clock was ahead for a while, beats of an owner that was told of meanwhile delete no rows of others that
// count.
func TestPartsLog_ClockAhead(t *testing.T) {
	t.Parallel()
	s := sharers(t, place(t), 1)[0]
	tell := func(owner string, seq, clock int64) {
		t.Helper()
		s.clock = fmt.Sprint(clock, "::bigint")
		testkit.Must(share(s, owner, "a", seq))(t)
	}
	const ahead = 3_600_000
	tell("early", 1, 1_000_000)
	tell("early", 2, 1_000_000+ahead)
	tell("counts", 1, 1_001_000)
	tell("early", 3, 1_002_000)
	tell("early", 4, 1_003_000)
	if !bytes.HasSuffix(rowOf(t, s, "counts"), mark) {
		t.Error("the row is no log any more")
	}
}

// TestPartsLog_DamagedBeside: a damaged log keeps no other from becoming an account that gateways of an earlier release read.
func TestPartsLog_DamagedBeside(t *testing.T) {
	t.Parallel()
	s := sharers(t, place(t), 1)[0]
	for _, owner := range []string{"damaged", "rests"} {
		testkit.Must(share(s, owner, "a", 1))(t)
	}
	exec(t, s, "UPDATE llmgov_parts SET account = overlay(account placing $1::bytea from 40) WHERE owner = 'damaged'", bytes.Repeat([]byte{'x'}, 60))
	conn := testkit.Must(s.db.Acquire(t.Context()))(t)
	defer conn.Release()
	s.fleet.hear(time.Now(), false)
	s.unlog(t.Context(), conn, []string{"damaged", "rests"})
	if _, err := parts.Decode(rowOf(t, s, "rests")); err != nil {
		t.Errorf("a gateway that knows no logs reads %v", err)
	}
	if !bytes.HasSuffix(rowOf(t, s, "damaged"), mark) {
		t.Error("the damaged log was touched")
	}
}

// TestParts: the suite, with gateways beside which others know no logs, and with some that all do.
func TestParts(t *testing.T) {
	t.Run("Accounts", func(t *testing.T) { t.Parallel(); runPartsSuite(t, 1, false) })
	t.Run("Logs", func(t *testing.T) { t.Parallel(); runPartsSuite(t, 3, true) })
}

func runPartsSuite(t *testing.T, processes int, alike bool) {
	storetest.RunParts(t, func(t *testing.T) storetest.PartsHarness {
		g := newGateways(t, processes)
		for _, s := range g.stores {
			s.fleet.hear(time.Now(), alike)
		}
		return storetest.PartsHarness{
			Store: g, Fewer: 8, SetClock: g.setClock,
			Replace:      g.replace,
			DeclareOwner: func(owner string) (bool, error) { return g.next().DeclareOwner(context.Background(), owner) },
			Damage: func(owner, with string) {
				exec(t, g.stores[0], "UPDATE llmgov_parts SET account = $2 WHERE owner = $1", owner, []byte(with))
			},
			Delete: func(owner string) { exec(t, g.stores[0], "DELETE FROM llmgov_parts WHERE owner = $1", owner) },
		}
	})
}

func (g *gateways) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	return g.next().Share(ctx, beats)
}

func (g *gateways) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	return g.next().Ask(ctx, q)
}

// share tells a beat of an owner, and returns the part that it gets of 10.
func share(s *Store, owner, instance string, seq int64) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := s.Share(ctx, []*parts.Beat{{Owner: owner, Instance: instance, Seq: seq, Claims: []parts.Claim{
		{Name: "x", Kind: parts.Rolling, Limit: 10, Want: 10},
	}}})
	if err != nil {
		return 0, err
	}
	return r[0].Parts[0].Part, nil
}

// has checks the answer to share.
func has(t *testing.T, s *Store, owner, instance string, seq, want int64) {
	t.Helper()
	if got, err := share(s, owner, instance, seq); err != nil || got != want {
		t.Fatalf("%s has %d of %s, %v; want %d", instance, got, owner, err, want)
	}
}

// TestParts_Life: an owner's row is deleted when nothing counts any more. The table is made when it is not there; who may not make it is told.
func TestParts_Life(t *testing.T) {
	t.Parallel()
	url := place(t)
	s := open(t, url)
	s.clock = "1000000::bigint"
	has(t, s, "p", "a", 1, 10)
	has(t, s, "p", "b", 1, 0)
	s.clock = "1122600::bigint"
	has(t, s, "q", "b", 1, 10)
	var left string
	if err := s.db.QueryRow(context.Background(), "SELECT string_agg(owner, ' ') FROM llmgov_parts").Scan(&left); err != nil || left != "q" {
		t.Errorf("there are rows of %q, %v", left, err)
	}

	exec(t, s, "UPDATE llmgov_parts SET account = '{'")
	if _, err := share(s, "q", "b", 2); !errors.Is(err, parts.ErrEncoding) {
		t.Errorf("of another release: %v", err)
	}
	exec(t, s, "DROP TABLE llmgov_parts")
	has(t, s, "q", "b", 2, 10)
	name, as := guest(t, s, url)
	exec(t, s, "GRANT SELECT, INSERT, UPDATE, DELETE ON llmgov_parts TO "+name)
	other := open(t, as)
	testkit.Must(share(other, "r", "b", 2))(t)
	if _, err := other.Beat(context.Background(), "p", join("z")); err == nil || !strings.Contains(err.Error(), "cannot make the table llmgov_pools") {
		t.Errorf("without the right to make the table: %v", err)
	}
}
