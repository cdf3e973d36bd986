package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation/parts"
)

// noStep leaves accounts as they are.
func noStep(int64, map[string]*parts.Account) {}

// transact has step done to the accounts of owners while it has locked their rows, which takes two round trips. unlog writes accounts where there
// were logs. It leaves rows that cannot be read as they are, and returns why not.
func (s *Store) transact(ctx context.Context, conn *pgxpool.Conn, names []string, unlog bool, step func(now int64, accounts map[string]*parts.Account)) (bad map[string]error, err error) {
	rows, now, err := s.lockOwners(ctx, conn, names)
	if err != nil {
		return nil, err
	}
	s.heard.Store(now)
	bad = map[string]error{}
	known := make(map[string]*replica[*ownerAccount], len(rows))
	accounts := make(map[string]*parts.Account, len(rows))
	rows = slices.DeleteFunc(rows, func(w owned) bool {
		k, err := s.owners.read(w.account)
		if err != nil {
			bad[w.owner] = unusable(err, partsTable, w.owner)
			return true
		}
		known[w.owner] = k
		accounts[w.owner] = &k.account.Account
		return false
	})
	if err := s.settle(ctx, conn, accounts); err != nil {
		return nil, err
	}
	step(now, accounts)
	for i := range rows {
		w := &rows[i]
		if err := s.write(w, known[w.owner], unlog); err != nil {
			return nil, err
		}
	}
	return bad, s.writeOwners(ctx, conn, rows)
}

// settle tells accounts that were declared new which server keeps them. The others need not know, because to ask takes one round trip more.
func (s *Store) settle(ctx context.Context, conn *pgxpool.Conn, accounts map[string]*parts.Account) error {
	for _, a := range accounts {
		if a.Declared == "" {
			continue
		}
		incarnation, err := s.askIncarnation(ctx, conn)
		if err != nil {
			return err
		}
		a.On(incarnation)
	}
	return nil
}

func (s *Store) askIncarnation(ctx context.Context, conn *pgxpool.Conn) (incarnation string, err error) {
	err = conn.QueryRow(ctx, "SELECT "+s.incarnation).Scan(&incarnation)
	return incarnation, err
}

// write makes a log of an account if all gateways can read that, unless it is to be none.
func (s *Store) write(w *owned, k *replica[*ownerAccount], unlog bool) (err error) {
	now := time.Now()
	wasLog := len(w.account) > 0 && w.account[0] == unread
	a := &k.account.Account
	w.expires = a.Now + a.Forget()
	if !unlog && (s.fleet.isAlike(now) || wasLog && !s.fleet.isMixed(now)) {
		w.account, k, err = k.later()
	} else {
		w.account, err = a.Encode()
		k = nothing[*ownerAccount]() // so that it is read again before it becomes a log
	}
	s.owners.put(w.owner, k)
	return err
}

// owned is an owner's row.
type owned struct {
	owner   string
	account []byte // empty of one that is new
	expires int64
}

// lockOwners begins a transaction that has the rows of owners.
func (s *Store) lockOwners(ctx context.Context, conn *pgxpool.Conn, names []string) (rows []owned, now int64, err error) {
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(s.limits)
	batch.Queue(partsTable.create(), names, []byte{})
	batch.Queue(partsTable.lock(), names)
	batch.Queue("SELECT owner, account FROM llmgov_parts WHERE owner = ANY($1::text[])", names).Query(func(found pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(found, func(r pgx.CollectableRow) (w owned, err error) {
			err = r.Scan(&w.owner, &w.account)
			return w, err
		})
		return err
	})
	batch.Queue("SELECT " + s.clock).QueryRow(func(r pgx.Row) error { return r.Scan(&now) })
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, err
	}
	if len(rows) != len(names) { // forgotten between two statements
		return nil, 0, errors.New("an owner's row is gone")
	}
	return rows, now, nil
}

// writeOwners ends the transaction.
func (s *Store) writeOwners(ctx context.Context, conn *pgxpool.Conn, rows []owned) error {
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
		FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS d (owner, account, expires) WHERE p.owner = d.owner`, names, accounts, expires).Exec(func(done pgconn.CommandTag) error {
		if n := done.RowsAffected(); n != int64(len(rows)) {
			return fmt.Errorf("of %d rows %d were written", len(rows), n)
		}
		return nil
	})
	s.sweep(&batch)
	batch.Queue("COMMIT")
	return conn.SendBatch(ctx, &batch).Close()
}

// sweep has owners' rows deleted that may be forgotten, once in a while. Whoever has a row is not waited for, so that nobody waits in a
// circle. The clock may be put back, so it is done a while after nothing counts there, and what was heard of the clock before says only
// when to look.
func (s *Store) sweep(batch *pgx.Batch) {
	now := s.heard.Load()
	window := parts.Window.Milliseconds()
	next := s.sweeps.Load()
	if now < next || !s.sweeps.CompareAndSwap(next, now+window) {
		return
	}
	s.owners.forget(now - window)
	batch.Queue("DELETE FROM llmgov_parts WHERE owner IN (SELECT owner FROM llmgov_parts WHERE expires < "+s.clock+" - $1::bigint FOR UPDATE SKIP LOCKED)", window)
}

// unlogAtOnce is how many logs are rewritten in one transaction at most.
const unlogAtOnce = 256

// unlog writes accounts in place of owners' logs, because a gateway is there that cannot read those. If that fails, a later beat of a pool does it.
func (s *Store) unlog(ctx context.Context, conn *pgxpool.Conn, names []string) {
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	_, _ = s.transact(ctx, conn, names, true, noStep)
}
