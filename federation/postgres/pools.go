package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation"
)

// poolAccount is the account of a pool, and its answer to the last beat of a log.
type poolAccount struct {
	*federation.Account
	reply federation.Reply
}

// logged begins the incarnation of an account at the beginning of a log. No server has it: for a gateway that knows no logs the account is one
// whose memory was lost, which is what it is without the beats behind it.
var logged = fmt.Sprintf("log %d of ", federation.Format)

func (a *poolAccount) encode() ([]byte, error) {
	own := a.Incarnation
	a.Incarnation = logged + own
	out, err := a.Encode()
	a.Incarnation = own
	return out, err
}

func (s *Store) decodePool(begin []byte) (*poolAccount, error) {
	a, err := federation.Decode(begin, s.rules)
	if err != nil {
		return nil, err
	}
	a.Incarnation = strings.TrimPrefix(a.Incarnation, logged)
	return &poolAccount{Account: a}, nil
}

func (a *poolAccount) take(e *entry) error {
	var b federation.Beat
	if err := decodeBeat(e.beat, &b); err != nil {
		return err
	}
	if a.Incarnation == "" { // there was no beat before
		a.Account = federation.NewAccount(a.Rules, e.now, federation.Options{Incarnation: e.incarnation})
	}
	a.reply = a.Beat(e.now, e.incarnation, b.Expect, &b)
	return nil
}

func (a *poolAccount) at() int64 { return a.Now }

// Beat implements runner.Store.
func (s *Store) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	var reply federation.Reply
	err := poolsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		done, err := s.pools.append(ctx, conn, []letter{{row: pool, beat: b}}, true, nil)
		if err != nil {
			return err
		}
		if k := done[pool]; k != nil {
			reply = k.account.reply
			s.pools.put(pool, k)
			s.fleet.hear(time.Now(), true)
			return nil
		}
		reply, err = s.rewrite(ctx, conn, pool, b)
		return err
	})
	if err != nil {
		return federation.Reply{}, fmt.Errorf("postgres: %w", err)
	}
	return reply, nil
}

// rewrite takes in a beat while it has locked the pool's row, which takes two round trips. It makes a log of the row as soon as
// all gateways of the pool can read that.
func (s *Store) rewrite(ctx context.Context, conn *pgxpool.Conn, pool string, b *federation.Beat) (federation.Reply, error) {
	row, err := s.lock(ctx, conn, pool)
	if err != nil {
		return federation.Reply{}, err
	}
	k, err := s.readPool(&row)
	if err != nil {
		return federation.Reply{}, unusable(err, poolsTable, pool)
	}
	a := k.account
	reply := a.Beat(row.now, row.incarnation, b.Expect, b)
	alike := a.Alike()
	if reply.Status != federation.Granted || !alike { // others may be about to come
		s.pools.put(pool, plainRow[*poolAccount]())
		account, err := a.Encode()
		if err != nil {
			return federation.Reply{}, err
		}
		if alike {
			return reply, write(ctx, conn, pool, account, nil)
		}
		return reply, s.writeForOthers(ctx, conn, pool, account)
	}
	account, later, err := k.later()
	if err != nil {
		return federation.Reply{}, err
	}
	s.pools.put(pool, later)
	s.fleet.hear(time.Now(), true)
	return reply, write(ctx, conn, pool, account, nil)
}

// writeForOthers ends the transaction of a pool that gateways of another format use. Once in a while it looks for owners' logs, which those cannot
// read, and writes accounts in their place. To look takes no round trip of its own, because that would be one more for the pool.
func (s *Store) writeForOthers(ctx context.Context, conn *pgxpool.Conn, pool string, account []byte) error {
	now := time.Now()
	s.fleet.hear(now, false)
	if !s.fleet.looks(now) {
		return write(ctx, conn, pool, account, nil)
	}
	var logs []string
	if err := write(ctx, conn, pool, account, &logs); err != nil {
		return err
	}
	s.unlog(ctx, conn, logs)
	return nil
}

// poolRow is a pool's row, and what the server says beside it.
type poolRow struct {
	account     []byte // empty of a pool that is new
	now         int64
	incarnation string
}

func (s *Store) readPool(w *poolRow) (*replica[*poolAccount], error) {
	if len(w.account) > 0 {
		return s.pools.read(w.account)
	}
	k := nothing[*poolAccount]()
	k.account = &poolAccount{Account: federation.NewAccount(s.rules, w.now, federation.Options{Incarnation: w.incarnation})}
	return k, nil
}

// lock begins a transaction that has the pool's row.
func (s *Store) lock(ctx context.Context, conn *pgxpool.Conn, pool string) (w poolRow, err error) {
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(s.limits)
	batch.Queue("INSERT INTO llmgov_pools VALUES ($1, '', clock_timestamp()) ON CONFLICT DO NOTHING", pool)
	batch.Queue("SELECT account FROM llmgov_pools WHERE pool = $1 FOR UPDATE", pool)
	batch.Queue("SELECT " + s.clock + ", " + s.incarnation)
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 3 {
		if _, err := results.Exec(); err != nil {
			return poolRow{}, err
		}
	}
	if err := results.QueryRow().Scan(&w.account); err != nil {
		return poolRow{}, err
	}
	err = results.QueryRow().Scan(&w.now, &w.incarnation)
	return w, err
}

// write ends the transaction. Then it fills in some owners that have logs, unless logs is nil, as far as it can.
func write(ctx context.Context, conn *pgxpool.Conn, pool string, account []byte, logs *[]string) (err error) {
	var batch pgx.Batch
	batch.Queue("UPDATE llmgov_pools SET account = $2, changed = clock_timestamp() WHERE pool = $1", pool, account)
	batch.Queue("COMMIT")
	if logs != nil {
		batch.Queue("SELECT owner FROM llmgov_parts WHERE "+isLog("$1")+" LIMIT $2", mark, unlogAtOnce)
	}
	results := conn.SendBatch(ctx, &batch)
	committed := false
	defer func() {
		closed := results.Close()
		if !committed {
			err = errors.Join(err, closed)
		}
	}()
	done, err := results.Exec()
	if err != nil {
		return err
	}
	if done.RowsAffected() != 1 {
		return errors.New("the pool's row is gone")
	}
	if _, err := results.Exec(); err != nil {
		return err
	}
	committed = true
	if logs != nil {
		found, _ := results.Query()
		*logs, _ = pgx.CollectRows(found, pgx.RowTo[string])
	}
	return nil
}

// Look implements runner.Store.
func (s *Store) Look(ctx context.Context, pool string) (federation.View, error) {
	var w poolRow
	err := use(ctx, s.db, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT account, "+s.clock+" FROM llmgov_pools WHERE pool = $1", pool).Scan(&w.account, &w.now)
	})
	if errors.Is(err, pgx.ErrNoRows) || missing(err) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, fmt.Errorf("postgres: %w", err)
	}
	k, err := s.readPool(&w)
	if err != nil {
		return federation.View{}, fmt.Errorf("postgres: %w", unusable(err, poolsTable, pool))
	}
	return k.account.View(w.now), nil
}
