package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation"
)

// longest is up to which length anything is appended to a row. Logs begin later long before.
const longest = 64 << 20

// replicas is what this process knows of pools' rows.
type replicas struct {
	mu  sync.Mutex
	all map[string]*replica // guarded by mu
}

// take returns what is known of a pool's row, for one reader alone.
func (r *replicas) take(pool string) *replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.all[pool]
	if k == nil {
		return nothing()
	}
	if !k.plain {
		delete(r.all, pool)
	}
	return k
}

func (r *replicas) put(pool string, k *replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[pool] = k
}

// create creates the row of a new pool, with a log of no beats.
const create = "INSERT INTO llmgov_pools VALUES ($1, $2, clock_timestamp()) ON CONFLICT DO NOTHING"

// shorten makes a log begin later, if it still is as it was read.
const shorten = `UPDATE llmgov_pools SET account = $4::bytea || substr(account, $2::int + 1)
	WHERE pool = $1 AND sha256(substr(account, 1, $2::int)) = $3::bytea`

// appendTo appends a beat to a log. It returns how long the log has become, and what has been added since it was read; or all of
// it, if it does not begin as it was read any more.
func (s *Store) appendTo() string {
	return `UPDATE llmgov_pools SET changed = clock_timestamp(), account = account || int8send(` + s.clock + `)
		|| int4send(octet_length($4::bytea)) || $4::bytea || convert_to(` + s.incarnation + `, 'UTF8') || $5::bytea
	WHERE pool = $1 AND octet_length(account) < $6::int AND substr(account, octet_length(account) - octet_length($5::bytea) + 1) = $5::bytea
	RETURNING octet_length(account),
		CASE WHEN sha256(substr(account, 1, $2::int)) = $3::bytea THEN substr(account, $2::int + 1) ELSE account END`
}

// append appends a beat to a pool's log, and works out the answer from all that stands there by then. It takes one round trip,
// and the row is locked for no longer than the server takes. ok is false if the row is no log.
func (s *Store) append(ctx context.Context, conn *pgxpool.Conn, known *replica, pool string, b *federation.Beat) (reply federation.Reply, ok bool, err error) {
	beat, err := encodeBeat(b)
	if err != nil {
		return reply, false, err
	}
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(limits)
	if known.account == nil {
		batch.Queue(create, pool, s.empty)
	}
	if known.long() {
		text, later, err := known.later()
		if err != nil {
			return reply, false, err
		}
		batch.Queue(shorten, pool, known.length, known.sum.Sum(nil), text)
		known = later
	}
	var length int
	var rest []byte
	batch.Queue(s.appendTo(), pool, known.length, known.sum.Sum(nil), beat, mark, longest).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&length, &rest)
		ok = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		s.replicas.put(pool, known)
		return reply, false, err
	}
	if !ok {
		return reply, false, nil
	}
	if known.account == nil || len(rest) == length {
		known = nothing()
		rest, err = known.begin(rest, s.rules)
	}
	if err == nil {
		reply, err = known.follow(rest)
	}
	if err != nil {
		s.replicas.put(pool, &replica{plain: true, sum: sha256.New()}) // so that nothing is appended to it any more
		return reply, true, unusable(err, poolsTable, "pool", pool)
	}
	s.replicas.put(pool, known)
	return reply, true, nil
}
