package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Schema is what a Store keeps its accounts in, by table. To compress them takes longer than to
// write them.
var Schema = map[string][]string{
	"llmgov_pools": {
		`CREATE TABLE llmgov_pools (pool text PRIMARY KEY, account bytea NOT NULL, changed timestamptz NOT NULL)`,
		`ALTER TABLE llmgov_pools ALTER COLUMN account SET STORAGE EXTERNAL`,
	},
	"llmgov_parts": {
		`CREATE TABLE llmgov_parts (owner text PRIMARY KEY, account bytea NOT NULL, expires bigint NOT NULL)`,
		`ALTER TABLE llmgov_parts ALTER COLUMN account SET STORAGE EXTERNAL`,
	},
	"llmgov_spend":     {createSpend()},
	"llmgov_told":      {`CREATE TABLE llmgov_told (what text PRIMARY KEY, until timestamptz NOT NULL)`},
	"llmgov_documents": {`CREATE TABLE llmgov_documents (name text PRIMARY KEY, text text NOT NULL)`},
}

// table is one of the Schema.
type table struct {
	name, key string
	// began is the last column of a new row, and stamp sets that of a row to which a beat is appended. %s is the server's clock.
	began, stamp string
	// least is how long the beats of a log may become at least.
	least int
}

// The tables. The logs of owners are short because there may be thousands, and the server writes a whole row for each beat.
var (
	poolsTable = &table{name: "llmgov_pools", key: "pool", began: "clock_timestamp()", stamp: "changed = clock_timestamp()", least: 32 << 10}
	partsTable = &table{name: "llmgov_parts", key: "owner", began: "0", stamp: "expires = greatest(t.expires, %s + d.lasts, d.ends)", least: 8 << 10}
)

// tableLock is the name of the lock under which tables are made.
const tableLock = 0x6c6c6d676f76

// with lets do use a connection. If that finds no table, the table is made, and do is called again. So where the
// table is there this takes no round trip, and no rights.
func (t *table) with(ctx context.Context, db *pgxpool.Pool, do func(*pgxpool.Conn) error) error {
	err := use(ctx, db, do)
	if !missing(err) {
		return err
	}
	err = use(ctx, db, func(conn *pgxpool.Conn) error { return t.make(ctx, conn) })
	if err != nil {
		return err
	}
	return use(ctx, db, do)
}

func use(ctx context.Context, db *pgxpool.Pool, do func(*pgxpool.Conn) error) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(conn)
	return do(conn)
}

// release gives a connection back, or closes it if it is in the middle of something. One that is being closed already does not
// count any more: to close it takes a quarter of a minute if the server does not answer that either, and a few of them would
// leave no connection for when it is back.
func release(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		conn.Hijack()
		return
	}
	conn.Release()
}

// make makes the table, unless another process has.
func (t *table) make(ctx context.Context, conn *pgxpool.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(tableLock)); err != nil {
			return err
		}
		there := false
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", t.name).Scan(&there); err != nil || there {
			return err
		}
		for _, sql := range Schema[t.name] {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("cannot make the table %s: %w", t.name, err)
			}
		}
		return nil
	})
}

// missing reports whether an error says that there is no table.
func missing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}
