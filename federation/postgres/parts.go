package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation/parts"
)

// Share tells beats of several owners in one transaction, and returns their answers in the same
// order. After an error it is not known whether they were booked; the next ones say all that
// they said.
func (s *Store) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	replies := make([]parts.Reply, len(beats))
	err := s.tell(ctx, s.db, beats, func(now int64, accounts []*parts.Account) {
		for i, b := range beats {
			replies[i] = accounts[i].Beat(now, b)
		}
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// Ask tells owners that hold for the same calls, in one transaction.
func (s *Store) Ask(ctx context.Context, q *parts.Ask) (answer parts.Answer, err error) {
	err = s.tell(ctx, s.askDB, q.Beats, func(now int64, accounts []*parts.Account) { answer = q.Tell(now, accounts) })
	if err != nil {
		return parts.Answer{}, err
	}
	return answer, nil
}

// tell has step done to the accounts of beats' owners, in one transaction.
func (s *Store) tell(ctx context.Context, db *pgxpool.Pool, beats []*parts.Beat, step func(now int64, accounts []*parts.Account)) error {
	err := partsTable.with(ctx, db, func(conn *pgxpool.Conn) error { return s.transact(ctx, conn, beats, step) })
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

func (s *Store) transact(ctx context.Context, conn *pgxpool.Conn, beats []*parts.Beat, step func(now int64, accounts []*parts.Account)) error {
	rows, now, err := s.lockOwners(ctx, conn, owners(beats))
	if err != nil {
		return err
	}
	accounts := make(map[string]*parts.Account, len(rows))
	for _, w := range rows {
		accounts[w.owner], err = w.read()
		if err != nil {
			return unusable(err, partsTable, "owner", w.owner)
		}
	}
	list := make([]*parts.Account, len(beats))
	for i, b := range beats {
		list[i] = accounts[b.Owner]
	}
	step(now, list)
	for i := range rows {
		if err := rows[i].write(accounts[rows[i].owner]); err != nil {
			return err
		}
	}
	return s.writeOwners(ctx, conn, now, rows)
}

// owners are those of beats, once each, in the order of their bytes. All lock them in that
// order, so that no two wait for each other.
func owners(beats []*parts.Beat) []string {
	var names []string
	for _, b := range beats {
		names = append(names, b.Owner)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// owned is an owner's row.
type owned struct {
	owner   string
	account []byte // empty of one that is new
	expires int64
}

func (w *owned) read() (*parts.Account, error) {
	if len(w.account) == 0 {
		return &parts.Account{}, nil
	}
	return parts.Decode(w.account)
}

func (w *owned) write(a *parts.Account) (err error) {
	w.account, err = a.Encode()
	w.expires = a.Now + a.Forget()
	return err
}

// lockOwners begins a transaction that has the rows of owners.
func (s *Store) lockOwners(ctx context.Context, conn *pgxpool.Conn, names []string) (rows []owned, now int64, err error) {
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(limits)
	batch.Queue("INSERT INTO llmgov_parts SELECT unnest($1::text[]), '', 0 ON CONFLICT DO NOTHING", names)
	batch.Queue(`SELECT owner, account FROM llmgov_parts WHERE owner = ANY($1::text[]) ORDER BY owner COLLATE "C" FOR UPDATE`, names)
	batch.Queue("SELECT " + s.clock)
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 3 {
		if _, err := results.Exec(); err != nil {
			return nil, 0, err
		}
	}
	found, err := results.Query()
	if err != nil {
		return nil, 0, err
	}
	rows, err = pgx.CollectRows(found, func(r pgx.CollectableRow) (w owned, err error) {
		err = r.Scan(&w.owner, &w.account)
		return w, err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(rows) != len(names) { // forgotten between two statements
		return nil, 0, errors.New("an owner's row is gone")
	}
	err = results.QueryRow().Scan(&now)
	return rows, now, err
}

// writeOwners ends the transaction.
func (s *Store) writeOwners(ctx context.Context, conn *pgxpool.Conn, now int64, rows []owned) (err error) {
	names := make([]string, len(rows))
	accounts := make([][]byte, len(rows))
	expires := make([]int64, len(rows))
	for i, w := range rows {
		names[i] = w.owner
		accounts[i] = w.account
		expires[i] = w.expires
	}
	var batch pgx.Batch
	batch.Queue(`UPDATE llmgov_parts p SET account = d.account, expires = d.expires
		FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS d (owner, account, expires) WHERE p.owner = d.owner`, names, accounts, expires)
	window := parts.Window.Milliseconds()
	if sweep := s.swept.Load(); now >= sweep && s.swept.CompareAndSwap(sweep, now+window) {
		// Whoever has a row is not waited for, so that nobody waits in a circle. The clock may be
		// put back, so it is done a while after nothing counts there.
		batch.Queue("DELETE FROM llmgov_parts WHERE owner IN (SELECT owner FROM llmgov_parts WHERE expires < $1 FOR UPDATE SKIP LOCKED)", now-window)
	}
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	done, err := results.Exec()
	if err != nil {
		return err
	}
	if n := done.RowsAffected(); n != int64(len(rows)) {
		return fmt.Errorf("of %d rows %d were written", len(rows), n)
	}
	for range batch.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}
