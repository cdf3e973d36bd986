package tenants

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Unit is what a budget counts.
type Unit string

// The units of budgets.
const (
	Tokens   Unit = "tokens"
	Requests Unit = "requests"
	// MicroUSD is millionths of a US dollar; files write dollars, under the key usd.
	MicroUSD Unit = "usd"
)

// Period is the calendar window of a budget, in the time zone of [Snapshot.Location].
type Period string

// The periods of budgets.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Budget is what may be used in each calendar window, in whole units. A list holds each pair of Unit and Per once.
type Budget struct {
	Unit  Unit
	Limit int64
	Per   Period
}

// maxMicroUSD is the largest budget in money: a thousand million dollars.
const maxMicroUSD = 1_000_000_000 * microUSD

var (
	units   = []string{string(Tokens), string(Requests), string(MicroUSD)}
	periods = []string{string(Hour), string(Day), string(Week), string(Month)}
)

var budgetShape = shape[Budget]{
	fields: []field[Budget]{
		{
			name: string(Tokens), about: "Tokens in the period.", kind: wholeKind(1, maxAmount),
			read: func(v value, b *Budget) { b.Unit, b.Limit = Tokens, v.limit(zeroBudget) },
		},
		{
			name: string(Requests), about: "Requests in the period.", kind: wholeKind(1, maxAmount),
			read: func(v value, b *Budget) { b.Unit, b.Limit = Requests, v.limit(zeroBudget) },
		},
		{
			name: string(MicroUSD), about: "US dollars in the period; every model that it counts needs a price.",
			kind: fractionKind(6, 1, maxMicroUSD),
			read: func(v value, b *Budget) { b.Unit, b.Limit = MicroUSD, v.dollars() },
		},
		{
			name: "per", about: "The calendar period, which begins in the config's timezone.", kind: wordKind(periods...),
			read: func(v value, b *Budget) { b.Per = v.period() },
		},
	},
	also: schema{"required": []any{"per"}, "oneOf": []any{
		schema{"required": []any{string(Tokens)}},
		schema{"required": []any{string(Requests)}},
		schema{"required": []any{string(MicroUSD)}},
	}},
}

const zeroBudget = "0 would block every call; leave the budget out, or remove the keys to block"

// dollars reads an amount of money.
func (v value) dollars() int64 {
	switch amount, signed := strings.CutPrefix(v.node.Value, "$"); {
	case v.node.Kind != yaml.ScalarNode: // reported below
	case signed && decimalNumber.MatchString(amount):
		v.problem("%s has a currency sign; write the number alone, in US dollars", v.say(v.node.Value))
		return 1
	case v.node.Value == "0" && !v.quoted():
		v.problem(zeroBudget)
		return 1
	}
	return v.decimal(6, 1, maxMicroUSD, 1)
}

func budgetList() schema {
	return listOf(func() schema { return budgetShape.schema(nil) }, 0, true)()
}

// budgets reads a list of budgets. A refused entry keeps its place in the list with a Limit of 0; the files are
// refused with it.
func (v value) budgets() []Budget {
	items, _ := v.items()
	if len(items) == 0 {
		return nil
	}
	items = atMost(v, items, maxEntries)
	list := make([]Budget, len(items))
	for i, it := range items {
		list[i] = it.budget()
	}
	repeatedBudgets(v.r, v.path, list)
	return list
}

func (v value) budget() Budget {
	list, ok := v.pairs()
	if !ok {
		return Budget{}
	}
	var b Budget
	if !readPairs(list, budgetShape, &b) {
		return Budget{} // the key that is unknown may be the one that is missing
	}
	var amounts []pair
	for _, p := range list {
		if slices.Contains(units, p.key) {
			amounts = append(amounts, p)
		}
	}
	switch {
	case len(amounts) == 0:
		v.problem("has no amount; write one of tokens, requests and usd")
		return Budget{}
	case len(amounts) > 1:
		extra := amounts[1]
		v.r.add(extra.at, "%s: %s is already the amount of this entry; give %s an entry of its own",
			spell(extra.path), amounts[0].key, extra.key)
		return Budget{}
	case !has(list, "per"):
		v.problem("has no period; write per: hour, day, week or month")
		return Budget{}
	case b.Per == "" || v.r.refused[amounts[0].path]:
		return Budget{}
	}
	return b
}

// period reads the window of a budget; a refused one reads as "".
func (v value) period() Period {
	text, ok := v.scalar()
	if !ok {
		return ""
	}
	if !slices.Contains(periods, text) {
		v.problem("%s is not a budget period; %s", v.say(text), adviseWord(text, periods))
		return ""
	}
	return Period(text)
}

// repeatedBudgets reports entries that count the same over the same period as an earlier one.
func repeatedBudgets(r *report, path string, list []Budget) {
	for i, b := range list {
		first := slices.IndexFunc(list[:i], func(o Budget) bool { return o.Unit == b.Unit && o.Per == b.Per })
		if first >= 0 && b.Limit != 0 {
			r.at(item(path, i), "%s per %s is also limited at %s; keep one",
				b.Unit, b.Per, r.place(item(path, first)).or("an earlier entry"))
		}
	}
}

// countsUSD is the index of the first budget in money, or -1.
func countsUSD(list []Budget) int {
	return slices.IndexFunc(list, func(b Budget) bool { return b.Unit == MicroUSD && b.Limit > 0 })
}
