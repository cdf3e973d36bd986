package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
)

//go:embed lua/spend.lua
var luaSpend string

// spendKey is that of what the calls of a day cost: a hash with a field for each tenant, model, upstream and gateway.
func spendKey(day string) string { return "llmgov:spend:" + day }

// PutSpend tells the rows of a gateway, as far as they have changed. Of a row that was told before the larger figures count, so it may be
// called again after an error, of which it is not known whether it was heard.
func (s *Store) PutSpend(ctx context.Context, gateway string, rows []spend.Row) error {
	days := map[string][]any{}
	for _, r := range rows {
		args := days[r.Day]
		if args == nil {
			day, err := time.Parse(time.DateOnly, r.Day)
			if err != nil {
				return fmt.Errorf("redis: the day of a row: %w", err)
			}
			args = append(args, time.Until(day.AddDate(0, 0, spend.KeepDays+2)).Milliseconds())
		}
		days[r.Day] = append(args, strings.Join([]string{r.Tenant, r.Model, r.Upstream, gateway}, "\n"), strings.Trim(fmt.Sprint(r.Sum), "[]"))
	}
	for day, args := range days {
		if _, err := assemble(luaSpend).run(ctx, s.client, spendKey(day), args...); err != nil {
			return explain(err, spendKey(day))
		}
	}
	return nil
}

// SpendRows calls each with the rows of some days, such as 2027-01-31, both included, of each gateway.
func (s *Store) SpendRows(ctx context.Context, from, to string, each func(spend.Row)) error {
	now := time.Now().UTC()
	for back := spend.KeepDays + 2; back >= -1; back-- { // no zone is a day ahead of tomorrow
		day := spend.DayOf(now.AddDate(0, 0, -back))
		if day < from || day > to {
			continue
		}
		found := s.client.HScan(ctx, spendKey(day), 0, "", 1000).Iterator()
		seen := map[string]bool{} // a field may come twice while the server makes room
		for found.Next(ctx) {
			field := found.Val()
			names := strings.Split(field, "\n")
			if !found.Next(ctx) || len(names) != 4 {
				return fmt.Errorf("redis: %s has a field that is none of llmgov's: %q", spendKey(day), names)
			}
			if seen[field] {
				continue
			}
			seen[field] = true
			r := spend.Row{Key: spend.Key{Day: day, Tenant: names[0], Model: names[1], Upstream: names[2]}}
			for i, n := range strings.Fields(found.Val()) {
				if i < len(r.Sum) {
					r.Sum[i], _ = strconv.ParseInt(n, 10, 64)
				}
			}
			each(r)
		}
		if err := found.Err(); err != nil {
			return explain(err, spendKey(day))
		}
	}
	return nil
}
