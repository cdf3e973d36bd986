package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

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

// TestParts_Life: an owner's row is deleted when nothing counts any more. The table is made when it is not there; who may not make it is told.
func TestParts_Life(t *testing.T) {
	t.Parallel()
	url := place(t)
	s := open(t, url)
	wants := func(owner, instance string, seq, want int64) {
		t.Helper()
		if got, err := share(s, owner, instance, seq); err != nil || got != want {
			t.Fatalf("%s has %d of %s, %v; want %d", instance, got, owner, err, want)
		}
	}
	s.clock = "1000000::bigint"
	wants("p", "a", 1, 10)
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
	name, as := guest(t, s, url)
	exec(t, s, "GRANT SELECT, INSERT, UPDATE, DELETE ON llmgov_parts TO "+name)
	other := open(t, as)
	if _, err := share(other, "r", "b", 2); err != nil {
		t.Error(err)
	}
	if _, err := other.Beat(context.Background(), "p", join("z")); err == nil || !strings.Contains(err.Error(), "cannot make the table llmgov_pools") {
		t.Errorf("without the right to make the table: %v", err)
	}
}
