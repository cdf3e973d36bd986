package simulate

import (
	_ "embed" // the report's body and script
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/htmlpage"
)

//go:embed assets/report.html
var reportBody string

//go:embed assets/report.js
var reportScript string

var page = htmlpage.New(reportBody, reportScript)

// card is a headline figure, with what it is to be compared with.
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
func WriteHTML(out io.Writer, r Result) error {
	tenants, more := reportTenants(&r)
	view := map[string]any{
		"Name": r.Scenario.Name, "About": r.Scenario.About, "Setting": r.setting(), "Seed": r.Charts.Seed,
		"Cards": cards(&r), "Figures": figureRows(&r), "Tenants": tenants, "More": more,
		"Source": string(r.Scenario.Source), "Argument": r.Scenario.Argument(),
	}
	if err := page.Write(out, r.Scenario.Name+" · llmgov simulate", view, r.Charts.rounded()); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}

func cards(r *Result) []card {
	f := &r.Figures
	list := []card{
		{"of the limit used", ratio.text(f.Utilization), "the oracle: " + ratio.text(entitledTotal(r))},
		{"misallocated, per minute", ratio.text(f.Misallocation), "worst minute " + ratio.text(f.MisallocationMax) + "; the oracle: 0"},
	}
	for _, c := range []struct {
		v     Value
		title string
		unit  unitOf
		text  string
	}{
		{f.RollingMax, "largest rolling minute", factor, "of the limit of tokens, from t = 0"},
		{f.RequestsRollingMax, "largest rolling minute", factor, "of the limit of requests, from t = 0"},
		{f.DominantRatio, "least ÷ largest dominant share", factor, "fair is 1"},
		{f.SlotsMax, "most slots at once", factor, "of the limit"},
		{f.FirstAdmission, "first admission on return", secondsOf, "5 s worth of its share after " + secondsOf.text(f.FiveSecondsWorth)},
		{f.PromiseKept, "promises kept", ratio, "second wait p95 " + secondsOf.text(f.PromiseLateP95)},
		{f.WaitP99, "wait, 99th percentile", secondsOf, "median " + secondsOf.text(f.WaitP50)},
	} {
		if c.v.Known() && len(list) < 6 {
			list = append(list, card{c.title, c.unit.text(c.v), c.text})
		}
	}
	return list
}

// entitledTotal is what the oracle gave in all.
func entitledTotal(r *Result) Value {
	sum := Value(0)
	for _, t := range r.Tenants {
		sum += t.Entitled
	}
	return sum
}

func figureRows(r *Result) []figureRow {
	var rows []figureRow
	for _, g := range figures {
		if v := *g.of(&r.Figures); !v.Known() {
			continue
		}
		rows = append(rows, figureRow{
			Title: strings.TrimSpace(g.title), Indent: strings.HasPrefix(g.title, " "),
			All: g.unit.text(*g.of(&r.Figures)), Least: g.unit.text(*g.of(&r.Least)), Most: g.unit.text(*g.of(&r.Most)),
		})
	}
	return rows
}

func reportTenants(r *Result) (rows []tenantRow, more int) {
	list, more := topTenants(r.Tenants, 40)
	most := Value(1e-9)
	for _, t := range list {
		most = max(most, t.Entitled, t.Received)
	}
	for _, t := range list {
		// The colour that its line has in the charts, else that of the others.
		color := slices.IndexFunc(r.Charts.Lines, func(l Line) bool { return l.Name == t.Name })
		if color < 0 || color > mostLines {
			color = mostLines
		}
		rows = append(rows, tenantRow{
			Name: t.Name, Weight: strconv.FormatFloat(t.Weight, 'g', 4, 64), Color: color,
			Entitled: ratio.text(t.Entitled), Received: ratio.text(t.Received),
			WaitP50: secondsOf.text(t.WaitP50), WaitP99: secondsOf.text(t.WaitP99), Refused: ratio.text(t.Refused),
			Fill: strconv.FormatFloat(float64(100*t.Received/most), 'f', 2, 64),
			Mark: strconv.FormatFloat(float64(100*t.Entitled/most), 'f', 2, 64),
		})
	}
	return rows, more
}

// rounded are the charts with no more digits than a screen shows.
func (c Charts) rounded() Charts {
	round := func(list []Value) []Value {
		out := make([]Value, len(list))
		for i, v := range list {
			out[i] = v
			if v.Known() {
				out[i] = Value(math.Round(float64(v)*1e4) / 1e4)
			}
		}
		return out
	}
	lines := slices.Clone(c.Lines)
	for i := range lines {
		l := &lines[i]
		l.Received, l.Entitled = round(l.Received), round(l.Entitled)
		l.WaitP50, l.WaitP99 = round(l.WaitP50), round(l.WaitP99)
	}
	c.Lines = lines
	limits := slices.Clone(c.Limits)
	for i := range limits {
		limits[i].Used = round(limits[i].Used)
	}
	c.Limits = limits
	if c.Returns == nil {
		c.Returns = []float64{}
	}
	return c
}
