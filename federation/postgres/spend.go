package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation/spend"
)

var spendTable = &table{name: "llmgov_spend"}

// createSpend makes the table of what calls cost, which others may query. Each gateway has rows of its own, so all figures are to be added up.
func createSpend() string {
	text := "CREATE TABLE llmgov_spend (day date, tenant text, team text, model text, upstream text, gateway text"
	for _, c := range spend.Columns {
		text += ", " + c + " bigint NOT NULL"
	}
	return text + ", PRIMARY KEY (day, tenant, team, model, upstream, gateway))"
}

// PutSpend tells the rows of a gateway, as far as they have changed. Of a row that was told before the larger figures count, so it may be
// called again after an error, of which it is not known whether it was heard.
func (s *Store) PutSpend(ctx context.Context, gateway string, rows []spend.Row) error {
	var days, names, teams, models, upstreams []string
	figures := make([][]int64, len(spend.Columns))
	for _, r := range rows {
		tenant, team := r.Team()
		days = append(days, r.Day)
		names = append(names, tenant)
		teams = append(teams, team)
		models = append(models, r.Model)
		upstreams = append(upstreams, r.Upstream)
		for i, n := range r.Sum {
			figures[i] = append(figures[i], n)
		}
	}
	args := []any{gateway, days, names, teams, models, upstreams}
	for _, column := range figures {
		args = append(args, column)
	}
	return spendTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		var batch pgx.Batch
		batch.Queue(begin)
		batch.Queue(s.limits)
		batch.Queue(putSpend(), args...)
		batch.Queue(fmt.Sprintf("DELETE FROM llmgov_spend WHERE day < current_date - %d", spend.KeepDays))
		batch.Queue("COMMIT")
		return conn.SendBatch(ctx, &batch).Close()
	})
}

// putSpend is the statement of PutSpend. Its parameters are the gateway, the keys and the figures, by column.
func putSpend() string {
	var sources, names, set []string
	for i, c := range spend.Columns {
		sources = append(sources, fmt.Sprintf("$%d::bigint[]", i+7))
		names = append(names, "d."+c)
		set = append(set, fmt.Sprintf("%s = greatest(t.%[1]s, excluded.%[1]s)", c))
	}
	columns := strings.Join(spend.Columns[:], ", ")
	return fmt.Sprintf(`INSERT INTO llmgov_spend AS t SELECT d.day::date, d.tenant, d.team, d.model, d.upstream, $1::text, %s
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], %s) AS d (day, tenant, team, model, upstream, %s)
		ON CONFLICT (day, tenant, team, model, upstream, gateway) DO UPDATE SET %s`,
		strings.Join(names, ", "), strings.Join(sources, ", "), columns, strings.Join(set, ", "))
}

// SpendRows calls each with the rows of some days, such as 2027-01-31, both included, added up over all gateways.
func (s *Store) SpendRows(ctx context.Context, from, to string, each func(spend.Row)) error {
	var sums []string
	for _, c := range spend.Columns {
		sums = append(sums, "sum("+c+")::bigint")
	}
	query := "SELECT day::text, tenant || CASE team WHEN '' THEN '' ELSE '/' || team END, model, upstream, " + strings.Join(sums, ", ") +
		" FROM llmgov_spend WHERE day BETWEEN $1::text::date AND $2::text::date GROUP BY day, tenant, team, model, upstream"
	return spendTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		found, err := conn.Query(ctx, query, from, to)
		if err != nil {
			return err
		}
		var r spend.Row
		into := []any{&r.Day, &r.Tenant, &r.Model, &r.Upstream}
		for i := range r.Sum {
			into = append(into, &r.Sum[i])
		}
		_, err = pgx.ForEachRow(found, into, func() error { each(r); return nil })
		return err
	})
}
