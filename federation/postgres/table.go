package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

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
}

// table is one of the Schema.
type table struct {
	name string
	made atomic.Bool // it is there
}

// tableLock is the name of the lock under which tables are made.
const tableLock = 0x6c6c6d676f76

// make sees to it that the table is there. It asks for no rights where it is.
func (t *table) make(ctx context.Context, conn *pgxpool.Conn) error {
	if t.made.Load() {
		return nil
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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
	t.made.Store(err == nil)
	return err
}

// undone looks for the table again if that is what an error is about.
func (t *table) undone(err error) error {
	if missing(err) {
		t.made.Store(false)
	}
	return err
}

// missing reports whether an error says that there is no table.
func missing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}
