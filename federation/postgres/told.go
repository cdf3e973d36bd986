package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

var toldTable = &table{name: "llmgov_told"}

// First reports whether no gateway has asked before about something, until a time.
func (s *Store) First(ctx context.Context, what string, until time.Time) (first bool, err error) {
	err = toldTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, "DELETE FROM llmgov_told WHERE until < clock_timestamp()"); err != nil {
			return err
		}
		done, err := conn.Exec(ctx, "INSERT INTO llmgov_told VALUES ($1::text, $2::timestamptz) ON CONFLICT DO NOTHING", what, until)
		first = done.RowsAffected() == 1
		return err
	})
	return first, err
}
