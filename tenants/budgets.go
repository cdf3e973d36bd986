package tenants

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The values of budgets; package terms describes them.
type (
	Unit   = terms.Unit
	Period = terms.Period
	Budget = terms.Budget
)

// The units and periods of budgets. Files write dollars, under the key usd.
const (
	Tokens   = terms.UnitTokens
	Requests = terms.UnitRequests
	MicroUSD = terms.UnitMicroUSD

	Hour  = terms.Hour
	Day   = terms.Day
	Week  = terms.Week
	Month = terms.Month
	Life  = terms.Life
)

// maxMicroUSD is the largest budget in money: a thousand million dollars.
const maxMicroUSD = 1_000_000_000 * microUSD

var (
	units   = words[Unit]{"a budget unit", []Unit{Tokens, Requests, MicroUSD}}
	periods = words[Period]{"a budget period", []Period{Hour, Day, Week, Month, Life}}
)

var budgetShape = shape[Budget]{
	Fields: []field[Budget]{
		budgetAmount(Tokens, "Tokens in the period."),
		budgetAmount(Requests, "Requests in the period."),
		{
			Name: MicroUSD.String(), About: "US dollars in the period; every model that it counts needs a price.",
			Kind: strictyaml.FractionKind(6, 1, maxMicroUSD),
			Read: func(v value, b *Budget) {
				b.Unit = MicroUSD
				b.Limit = readDollars(v)
			},
		},
		{
			Name: "per", About: "The calendar period, which begins in the config's timezone, or life: all time, of a member until it has not called for 30 days. Pools have no budgets for life.", Kind: periods.kind(),
			Read: func(v value, b *Budget) { b.Per = periods.read(v, Hour) },
		},
		{
			Name: "warn_at", About: "Parts of it, such as [50%, 80%], of which an event tells once they are used, once a period.",
			Kind: strictyaml.ListOf(strictyaml.TextKind(percentShape), 0, true), Read: readWarnings,
		},
		{
			Name: "then", About: "Whether calls are refused once it is spent, as they are if it is left out, or go in the background, after all others of their tenant.",
			Kind: strictyaml.WordKind("refuse", "background"),
			Read: func(v value, b *Budget) {
				strictyaml.OneOf(v, &b.Background, map[string]bool{"refuse": false, "background": true})
			},
		},
	},
	Also: schema{"required": []any{"per"}, "oneOf": []any{
		schema{"required": []any{Tokens.String()}},
		schema{"required": []any{Requests.String()}},
		schema{"required": []any{MicroUSD.String()}},
	}},
}

func budgetAmount(unit Unit, about string) field[Budget] {
	return field[Budget]{
		Name: unit.String(), About: about, Kind: strictyaml.WholeKind(1, maxAmount),
		Read: func(v value, b *Budget) {
			b.Unit = unit
			b.Limit = readLimit(v, zeroBudget)
		},
	}
}

// percentShape is a part of a budget.
const percentShape = `^([1-9][0-9]?|100)%$`

var percent = regexp.MustCompile(percentShape)

func readWarnings(v value, b *Budget) {
	items, _ := v.Items()
	items = atMost(v, items, terms.MaxWarnings)
	for i, it := range items {
		text, ok := it.Scalar()
		switch {
		case !ok:
		case !percent.MatchString(text):
			it.Problem("%s is no part of a budget; write a whole percentage from 1%% to 100%%", it.Say(text))
		default:
			b.WarnAt[i], _ = strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		}
	}
}

const zeroBudget = "0 would block every call; leave the budget out, or remove the keys to block"

// readDollars reads an amount of money.
func readDollars(v value) int64 {
	switch amount, signed := strings.CutPrefix(v.Raw(), "$"); {
	case !v.IsScalar(): // reported below
	case signed && strictyaml.DecimalNumber.MatchString(amount):
		v.Problem("%s has a currency sign; write the number alone, in US dollars", v.Say(v.Raw()))
		return 1
	case v.Raw() == "0" && !v.Quoted():
		v.Problem(zeroBudget)
		return 1
	}
	return v.Decimal(6, 1, maxMicroUSD, 1)
}

func budgetList() schema {
	return strictyaml.ListOf(func() schema { return budgetShape.Schema(nil) }, 0, true)()
}

// readBudgets reads a list of budgets. A refused entry keeps its place in the list with a Limit of 0; the files are
// refused with it.
func readBudgets(v value) []Budget {
	items, _ := v.Items()
	if len(items) == 0 {
		return nil
	}
	items = atMost(v, items, maxEntries)
	list := make([]Budget, len(items))
	for i, it := range items {
		list[i] = readBudget(it)
	}
	repeatedBudgets(v.Report, v.Path, list)
	return list
}

func readBudget(v value) Budget {
	list, ok := v.Pairs()
	if !ok {
		return Budget{}
	}
	var b Budget
	if !budgetShape.ReadPairs(list, &b) {
		return Budget{} // the key that is unknown may be the one that is missing
	}
	var amounts []pair
	for _, p := range list {
		if slices.Contains(units.names(), p.Key) {
			amounts = append(amounts, p)
		}
	}
	switch {
	case len(amounts) == 0:
		v.Problem("has no amount; write one of tokens, requests and usd")
		return Budget{}
	case len(amounts) > 1:
		extra := amounts[1]
		v.Report.Add(extra.At, "%s: %s is already the amount of this entry; give %s an entry of its own",
			strictyaml.Spell(extra.Path), amounts[0].Key, extra.Key)
		return Budget{}
	case !strictyaml.Has(list, "per"):
		v.Problem("has no period; write per: hour, day, week, month or life")
		return Budget{}
	case v.Report.Refused[strictyaml.Child(v.Path, "per")] || v.Report.Refused[amounts[0].Path]:
		return Budget{}
	}
	return b
}

// repeatedBudgets reports entries that count the same over the same period as an earlier one.
func repeatedBudgets(r *report, path string, list []Budget) {
	for i, b := range list {
		first := slices.IndexFunc(list[:i], b.Same)
		if first >= 0 && b.Limit != 0 {
			r.At(strictyaml.Item(path, i), "%s per %s is also limited at %s; keep one",
				b.Unit, b.Per, r.Place(strictyaml.Item(path, first)).Or("an earlier entry"))
		}
	}
}

// poolBudgets reports those that a pool cannot have.
func poolBudgets(r *report, path string, list []Budget) {
	for i, b := range list {
		if b.Per == Life {
			r.At(strictyaml.Item(path, i), "a pool has no budget for life; write hour, day, week or month, or give one to tenants or members")
		}
	}
}

// countsUSD is the index of the first budget in money, or -1.
func countsUSD(list []Budget) int {
	return slices.IndexFunc(list, func(b Budget) bool { return b.Unit == MicroUSD && b.Limit > 0 })
}

// spentStatuses are the values of Tenant.Spent.
var spentStatuses = []int64{429, 402}

func readSpent(v value, t *draft) {
	text, ok := v.Digits()
	at := slices.IndexFunc(spentStatuses, func(n int64) bool { return text == strconv.FormatInt(n, 10) })
	switch {
	case !ok:
	case at < 0:
		v.Problem("%s is not a status for spent budgets; use 429 or 402", v.Say(text))
	default:
		t.Spent = spentStatuses[at]
	}
}
