package report

import (
	_ "embed" // the report's body and script
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate"
	"github.com/llmgov/llmgov/internal/lib/htmlpage"
)

//go:embed assets/report.html
var reportBody string

//go:embed assets/report.js
var reportScript string

var page = htmlpage.New(reportBody, reportScript)

// card is a headline figure, with one to compare it with.
type card struct{ Title, Value, Beside string }

type figureRow struct {
	Title, All, Least, Most string
	Indent                  bool
}

type tenantRow struct {
	Name, Weight, Entitled, Received, WaitP50, WaitP99, Refused string
	Fill, Mark                                                  string // percent of the bar
	Color                                                       int
}

// WriteHTML writes the result as one page that needs nothing but itself.
func WriteHTML(out io.Writer, r simulate.Result) error {
	tenants, more := reportTenants(&r)
	view := map[string]any{
		"Name": r.Scenario.Name, "About": r.Scenario.About, "Setting": setting(&r), "Seed": r.Charts.Seed,
		"Cards": cards(&r), "Figures": figureRows(&r), "Comparison": comparison(&r), "Tenants": tenants, "More": more,
		"Source": string(r.Scenario.Source), "Argument": r.Scenario.Argument(),
	}
	if err := page.Write(out, r.Scenario.Name+" · llmgov simulate", view, r.Charts); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}

func cards(r *simulate.Result) []card {
	f := &r.Figures
	list := []card{
		{"of the limit used", text(simulate.Ratio, f.Utilization), "the oracle: " + text(simulate.Ratio, entitledTotal(r))},
		{"misallocated, per minute", text(simulate.Ratio, f.Misallocation), "worst minute " + text(simulate.Ratio, f.MisallocationMax) + "; the oracle: 0"},
	}
	for _, c := range []struct {
		v     simulate.Value
		title string
		unit  simulate.Unit
		text  string
	}{
		{f.Fullest[escrow.Tokens], "largest rolling minute", simulate.Factor, "of the limit of tokens, from t = 0"},
		{f.Fullest[escrow.Requests], "largest rolling minute", simulate.Factor, "of the limit of requests, from t = 0"},
		{f.Fullest[escrow.Input], "largest rolling minute", simulate.Factor, "of the limit of input, from t = 0"},
		{f.Fullest[escrow.Output], "largest rolling minute", simulate.Factor, "of the limit of output, from t = 0"},
		{f.DominantRatio, "least ÷ largest dominant share", simulate.Factor, "fair is 1"},
		{f.Fullest[escrow.Slots], "most slots at once", simulate.Factor, "of the limit"},
		{f.FirstAdmission, "first admission on return", simulate.Seconds, "5 s worth of its share after " + text(simulate.Seconds, f.FiveSecondsWorth)},
		{f.PromiseKept, "promises kept", simulate.Ratio, "second wait p95 " + text(simulate.Seconds, f.PromiseLateP95)},
		{f.WaitP99, "wait, 99th percentile", simulate.Seconds, "median " + text(simulate.Seconds, f.WaitP50)},
	} {
		if c.v.Known() && len(list) < 6 {
			list = append(list, card{c.title, text(c.unit, c.v), c.text})
		}
	}
	return list
}

// entitledTotal is the sum of all shares by the oracle.
func entitledTotal(r *simulate.Result) simulate.Value {
	sum := simulate.Value(0)
	for _, t := range r.Tenants {
		sum += t.Entitled
	}
	return sum
}

func figureRows(r *simulate.Result) []figureRow {
	var rows []figureRow
	for _, g := range simulate.AllFigures {
		if v := *g.Of(&r.Figures); !v.Known() {
			continue
		}
		rows = append(rows, figureRow{
			Title: strings.TrimSpace(g.Title), Indent: strings.HasPrefix(g.Title, " "),
			All: text(g.Unit, *g.Of(&r.Figures)), Least: text(g.Unit, *g.Of(&r.Least)), Most: text(g.Unit, *g.Of(&r.Most)),
		})
	}
	return rows
}

func reportTenants(r *simulate.Result) (rows []tenantRow, more int) {
	list, more := topTenants(r.Tenants, 40)
	most := simulate.Value(1e-9)
	for _, t := range list {
		most = max(most, t.Entitled, t.Received)
	}
	for _, t := range list {
		// The colour that its line has in the charts, else that of the others.
		color := slices.IndexFunc(r.Charts.Lines, func(l simulate.Line) bool { return l.Name == t.Name })
		if color < 0 || color > simulate.MostLines {
			color = simulate.MostLines
		}
		rows = append(rows, tenantRow{
			Name: t.Name, Weight: strconv.FormatFloat(t.Weight, 'g', 4, 64), Color: color,
			Entitled: text(simulate.Ratio, t.Entitled), Received: text(simulate.Ratio, t.Received),
			WaitP50: text(simulate.Seconds, t.WaitP50), WaitP99: text(simulate.Seconds, t.WaitP99), Refused: text(simulate.Ratio, t.Refused),
			Fill: strconv.FormatFloat(float64(100*t.Received/most), 'f', 2, 64),
			Mark: strconv.FormatFloat(float64(100*t.Entitled/most), 'f', 2, 64),
		})
	}
	return rows, more
}
