package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

// TestParts: the suite, with gateways beside which others know no logs, and with some that all do.
func TestParts(t *testing.T) {
	url := pgtest.New(t).URL()
	t.Run("Accounts", func(t *testing.T) { runPartsSuite(t, url, 1, false) })
	t.Run("Logs", func(t *testing.T) { runPartsSuite(t, url, 3, true) })
}

func runPartsSuite(t *testing.T, url string, processes int, alike bool) {
	admin := open(t, url)
	n := 0
	storetest.RunParts(t, func(t *testing.T) storetest.PartsHarness {
		n++
		schema := fmt.Sprint("parts", processes, "of", n)
		exec(t, admin, "CREATE SCHEMA "+schema)
		g := &gateways{}
		for range processes {
			s := open(t, url+"&search_path="+schema)
			s.fleet.hear(time.Now(), alike)
			g.stores = append(g.stores, s)
		}
		return storetest.PartsHarness{Store: g, SetClock: func(now int64) {
			for _, s := range g.stores {
				s.clock = fmt.Sprint(now, "::bigint")
			}
		}}
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := s.Share(ctx, []*parts.Beat{{Owner: owner, Instance: instance, Seq: seq, Claims: []parts.Claim{
		{Name: "x", Kind: parts.Rolling, Limit: 10, Want: 10},
	}}})
	if err != nil {
		return 0, err
	}
	return r[0].Parts[0].Part, nil
}

// TestParts_Life: parts are remembered over a restart, and an owner's row is deleted when
// nothing counts any more. The table is made when it is not there; who may not make it is told.
func TestParts_Life(t *testing.T) {
	server := pgtest.New(t)
	s := open(t, server.URL())
	wants := func(owner, instance string, seq, want int64) {
		t.Helper()
		if got, err := share(s, owner, instance, seq); err != nil || got != want {
			t.Fatalf("%s has %d of %s, %v; want %d", instance, got, owner, err, want)
		}
	}
	s.clock = "1000000::bigint"
	wants("p", "a", 1, 10)
	server.Stop()
	if _, err := share(s, "p", "b", 1); err == nil {
		t.Fatal("a server that does not run has answered")
	}
	server.Start()
	wants("p", "b", 1, 0)
	s.clock = "1122600::bigint"
	wants("q", "b", 1, 10)
	var left string
	if err := s.db.QueryRow(context.Background(), "SELECT string_agg(owner, ' ') FROM llmgov_parts").Scan(&left); err != nil || left != "q" {
		t.Errorf("there are rows of %q, %v", left, err)
	}

	exec(t, s, "UPDATE llmgov_parts SET account = '{'")
	if _, err := share(s, "q", "b", 2); !errors.Is(err, parts.ErrEncoding) {
		t.Errorf("of another release: %v", err)
	}
	exec(t, s, "DROP TABLE llmgov_parts")
	wants("q", "b", 2, 10)
	exec(t, s, "CREATE ROLE guest LOGIN")
	exec(t, s, "GRANT SELECT, INSERT, UPDATE, DELETE ON llmgov_parts TO guest")
	guest := open(t, strings.Replace(server.URL(), "llmgov@", "guest@", 1))
	if _, err := share(guest, "r", "b", 2); err != nil {
		t.Error(err)
	}
	if _, err := guest.Beat(context.Background(), "p", join("z")); err == nil || !strings.Contains(err.Error(), "cannot make the table llmgov_pools") {
		t.Errorf("without the right to make the table: %v", err)
	}
}
