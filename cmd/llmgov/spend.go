package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

type spendCmd struct {
	asking
	By    string `placeholder:"KEYS" default:"tenant" help:"What to add up by: day, tenant, team, model, upstream, or several of these, as in team,model."`
	From  string `placeholder:"DAY" help:"The first day, such as 2027-01-01. Default: the first of this month."`
	To    string `placeholder:"DAY" help:"The last day. Default: today."`
	CSV   bool   `name:"csv" xor:"format" help:"Print comma-separated values."`
	Focus bool   `xor:"format" help:"Print comma-separated values with the columns of FOCUS 1.0, a row for each day, team, model and upstream."`
	JSON  bool   `name:"json" xor:"format" help:"Print one JSON object."`
}

func (spendCmd) Help() string {
	return `Example: llmgov spend --by team,model --from 2027-01-01 --to 2027-01-31 --csv

With a store it counts the calls of all gateways.`
}

func (c spendCmd) Run(e *env) error {
	by := c.By
	if c.Focus {
		by = "day,team,model,upstream"
	}
	query := neturl.Values{"by": {by}}
	for name, value := range map[string]string{"from": c.From, "to": c.To} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var s adminapi.Spend
	if _, err := c.ask(e, http.MethodGet, "/api/v1/spend?"+query.Encode(), nil, &s); err != nil {
		return err
	}
	switch {
	case c.JSON:
		return writeJSON(e, s)
	case c.Focus:
		return writeFocus(e, &s)
	}
	rows := [][]string{append(spendHead(s.By), "calls", "input_tokens", "cached_input_tokens", "output_tokens", "usd", "estimated_usd")}
	for i := range s.Rows {
		r := &s.Rows[i]
		if !c.CSV {
			r.Team = cmp.Or(r.Team, "-")
		}
		rows = append(rows, append(spendNames(s.By, r), spendFigures(&r.SpendFigures)...))
	}
	if c.CSV {
		return writeCSV(e, rows)
	}
	names := len(rows[0]) - len(spendFigures(&s.Total))
	total := make([]string, names)
	total[0] = "total"
	rows = append(rows, append(total, spendFigures(&s.Total)...))
	var right []int
	for i := range rows[0] {
		rows[0][i] = strings.ToUpper(strings.ReplaceAll(rows[0][i], "_", " "))
		if i >= names {
			right = append(right, i)
		}
	}
	whose := "this gateway"
	if s.AllGateways {
		whose = "all gateways"
	}
	_, err := fmt.Fprintf(e.stdout, "%s to %s (%s), calls of %s\n\n%s", s.From, s.To, s.Timezone, whose, report.Aligned(rows, right...))
	return err
}

// spendHead are the columns of keys. A team's is after its tenant's.
func spendHead(by []string) (names []string) {
	for _, key := range by {
		if key == "team" && !slices.Contains(by, "tenant") {
			names = append(names, "tenant")
		}
		names = append(names, key)
	}
	return names
}

func spendNames(by []string, r *adminapi.SpendRow) (names []string) {
	of := map[string]string{"day": r.Day, "tenant": r.Tenant, "team": r.Team, "model": r.Model, "upstream": r.Upstream}
	for _, key := range spendHead(by) {
		names = append(names, of[key])
	}
	return names
}

func spendFigures(f *adminapi.SpendFigures) []string {
	return []string{
		strconv.FormatInt(f.Calls, 10), strconv.FormatInt(f.InputTokens, 10), strconv.FormatInt(f.CachedInputTokens, 10), strconv.FormatInt(f.OutputTokens, 10),
		dollars(f.USD), dollars(f.EstimatedUSD),
	}
}

func dollars(usd float64) string { return strconv.FormatFloat(usd, 'f', 6, 64) }

func writeCSV(e *env, rows [][]string) error {
	w := csv.NewWriter(e.stdout)
	return errors.Join(w.WriteAll(rows), w.Error())
}

// writeFocus writes the columns that FOCUS 1.0 demands, and those of its optional ones that there is something for. An upstream stands for the provider
// and the account with it, and a tenant for the account within that.
func writeFocus(e *env, s *adminapi.Spend) error {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil {
		return fmt.Errorf("llmgov: the time zone of the gateway (%s) is not known here: %w", s.Timezone, err)
	}
	rows := [][]string{{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
		"ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost",
		"InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "SkuId",
		"SubAccountId", "SubAccountName", "Tags",
	}}
	for i := range s.Rows {
		r := &s.Rows[i]
		day, err := time.ParseInLocation(time.DateOnly, r.Day, zone)
		if err != nil {
			return fmt.Errorf("llmgov: the gateway answered with the day %q", r.Day)
		}
		month := day.AddDate(0, 0, 1-day.Day())
		tags, _ := json.Marshal(map[string]string{"team": r.Team}) // texts can always be written
		cost := dollars(r.USD)
		tokens := strconv.FormatInt(r.InputTokens+r.OutputTokens, 10)
		rows = append(rows, []string{
			cost, r.Upstream, r.Upstream, "USD", instant(month.AddDate(0, 1, 0)), instant(month), "Usage", "",
			fmt.Sprintf("%d calls of %s", r.Calls, r.Model), "Usage-Based", instant(day.AddDate(0, 0, 1)), instant(day), tokens, "Tokens", cost, cost,
			r.Upstream, cost, tokens, "Tokens", r.Upstream, r.Upstream, "AI and Machine Learning", "Model inference", r.Model,
			r.Tenant, r.Tenant, string(tags),
		})
	}
	return writeCSV(e, rows)
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
