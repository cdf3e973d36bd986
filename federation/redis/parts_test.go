package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

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
