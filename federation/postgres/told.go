package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

var toldTable = &table{name: "llmgov_told"}

// First implements store.Herald. What is over is removed by those who are first, of whom there are few.
func (s *Store) First(ctx context.Context, what string, mine, until time.Time) (first bool, err error) {
	err = toldTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		done, err := conn.Exec(ctx, `INSERT INTO llmgov_told AS t VALUES ($1::text, $2::timestamptz)
			ON CONFLICT (what) DO UPDATE SET until = excluded.until WHERE t.until < clock_timestamp() OR t.until = $3::timestamptz`, what, until, mine)
		first = done.RowsAffected() == 1
		if first { // a removal that fails is the next one's
			_, _ = conn.Exec(ctx, "DELETE FROM llmgov_told WHERE until < clock_timestamp()")
		}
		return err
	})
	return first, err
}
