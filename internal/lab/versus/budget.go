package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
)

const (
	fewCalls    = 10 // a budget
	manyCalls   = 50
	fewTokens   = 10_000
	spendCalls  = 100
	spendPrompt = 440 // bytes
	spendOutput = 200
)

// noSuchLimit is in the cells of gateways that lack a limit.
const noSuchLimit = "no such limit"

// runBudgets has more callers at once than a budget allows calls or tokens.
func runBudgets(ctx context.Context, b *bench) error {
	f := b.report.table("budget", "A budget, and more calls at once than it allows",
		fmt.Sprintf("%d calls at once by a key that may make %d. Then %d calls by %d callers, of some 300 tokens each, by a key that may use %d tokens: "+
			"as a budget (LiteLLM: in dollars), and as a limit a minute. The model server counts.", manyCalls, fewCalls, spendCalls, manyCalls, fewTokens),
		b.columns())
	model, err := startModel(ctx, b.llmgov, b.dir)
	if err != nil {
		return err
	}
	defer model.stop()
	calls := f.row(fmt.Sprintf("budget of %d calls: reached the model server", fewCalls), "")
	answers := f.row("– the other callers were answered", "")
	twice := f.row("– two gateways, half of the calls at each: reached the model server", "")
	budget := f.row(fmt.Sprintf("budget of %d tokens: tokens produced, of the budget", fewTokens), "%")
	minute := f.row(fmt.Sprintf("limit of %d tokens a minute: tokens produced, of the limit", fewTokens), "%")

	one := site{model: model, tenants: budgetTenants(b.rounds)}
	err = b.interleave(ctx, one, func(ctx context.Context, column int, o *opened, round int) error {
		reached, others, err := tenCalls(ctx, o, model, tenantOf(one.tenants, "ten", round))
		if err != nil {
			return err
		}
		calls.add(column, reached)
		answers.say(column, others)
		if err := spendTokens(ctx, o, model, tenantOf(one.tenants, "all", round), limitBudget, column, budget); err != nil {
			return err
		}
		untilNextMinute(o.contestant)
		return spendTokens(ctx, o, model, tenantOf(one.tenants, "minute", round), limitTPM, column, minute)
	})
	if err != nil {
		return err
	}
	two := one
	two.gateways = 2
	return b.interleave(ctx, two, func(ctx context.Context, column int, o *opened, round int) error {
		reached, _, err := tenCalls(ctx, o, model, tenantOf(two.tenants, "ten", round))
		twice.add(column, reached)
		return err
	})
}

func budgetTenants(rounds int) (list []tenant) {
	for round := range rounds {
		list = append(
			list,
			tenant{name: fmt.Sprintf("ten-%d", round), calls: fewCalls},
			tenant{name: fmt.Sprintf("all-%d", round), budget: fewTokens},
			tenant{name: fmt.Sprintf("minute-%d", round), tpm: fewTokens},
		)
	}
	return list
}

// tenantOf is a kind's tenant of a round: each round has new ones, whose budgets are whole.
func tenantOf(list []tenant, kind string, round int) tenant {
	i := slices.IndexFunc(list, func(t tenant) bool { return t.name == fmt.Sprintf("%s-%d", kind, round) })
	return list[i]
}

// interleave opens all gateways and has them take turns, in rounds.
func (b *bench) interleave(ctx context.Context, s site, turn func(ctx context.Context, column int, o *opened, round int) error) error {
	all, closeAll, err := b.openAll(ctx, s)
	if err != nil {
		return err
	}
	defer closeAll()
	for round := range b.rounds {
		for column, o := range all {
			if err := turn(ctx, column, o, round); err != nil {
				return fmt.Errorf("%s, round %d: %w", o.name, round, err)
			}
		}
	}
	return nil
}

// tenCalls returns how many calls reached the model server, and how the others were answered.
func tenCalls(ctx context.Context, o *opened, model *model, t tenant) (reached float64, others string, err error) {
	before, err := model.stats(ctx)
	if err != nil {
		return 0, "", err
	}
	body := chat(200, 20, false, `"first_token_ms":50`)
	answers := statuses(manyCalls, manyCalls, func(i int) int {
		return o.gateways[i%len(o.gateways)].status(ctx, t.key(), body)
	})
	after, err := model.atRest(ctx)
	if err != nil {
		return 0, "", err
	}
	return float64(after.Requests - before.Requests), othersOf(answers), nil
}

// othersOf are the statuses of calls that were not answered with 200.
func othersOf(answers map[int]int) string {
	var list []string
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		if status != http.StatusOK {
			list = append(list, fmt.Sprint(status))
		}
	}
	if list == nil {
		return "there were none"
	}
	return strings.Join(list, ", ")
}

// spendTokens adds the tokens that the model server produced for a tenant of few tokens, in percent of these.
func spendTokens(ctx context.Context, o *opened, model *model, t tenant, of limit, column int, r *row) error {
	if o.lacks[of] {
		r.say(column, noSuchLimit)
		return nil
	}
	before, err := model.stats(ctx)
	if err != nil {
		return err
	}
	body := chat(spendPrompt, spendOutput, false, `"first_token_ms":50,"token_ms":1`)
	atOnce(spendCalls, manyCalls, func(int) { o.first().status(ctx, t.key(), body) })
	after, err := model.atRest(ctx)
	if err != nil {
		return err
	}
	r.add(column, 100*float64(after.TokensProduced-before.TokensProduced)/fewTokens)
	return nil
}

// atRest waits until the model server works on nothing.
func (m *model) atRest(ctx context.Context) (mock.Stats, error) {
	for {
		s, err := m.stats(ctx)
		if err != nil || s.Running+s.Queued == 0 {
			return s, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// untilNextMinute waits for a new minute near the end of one, for gateways that count by the minutes of the clock: none of the calls
// is to fall into the next one.
func untilNextMinute(c *contestant) {
	now := time.Now()
	if c == &envoyGlobal && now.Second() >= 55 {
		time.Sleep(time.Until(now.Truncate(time.Minute).Add(time.Minute)))
	}
}
