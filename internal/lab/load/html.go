package load

import (
	_ "embed" // the report's body and script
	"fmt"
	"io"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/llmgov/llmgov/internal/lib/htmlpage"
)

//go:embed assets/report.html
var reportBody string

//go:embed assets/report.js
var reportScript string

var page = htmlpage.New(reportBody, reportScript)

// chartLine is one line of the charts, by cell; nil without a measurement.
type chartLine struct {
	Name       string     `json:"name"`
	Tokens     []float64  `json:"tokens"`
	Refused    []float64  `json:"refused"`
	TTFTP50    []*float64 `json:"ttft_p50"`
	TTFTP99    []*float64 `json:"ttft_p99"`
	LatencyP50 []*float64 `json:"latency_p50"`
	LatencyP99 []*float64 `json:"latency_p99"`
}

type chartData struct {
	Times []float64   `json:"times"` // the middles of cells, in seconds
	Lines []chartLine `json:"lines"`
}

func (c *course) charts() chartData {
	var d chartData
	width := c.width.Seconds()
	for k := range c.lines[0].cells {
		d.Times = append(d.Times, (float64(k)+0.5)*width)
	}
	for _, line := range c.lines {
		l := chartLine{Name: line.name}
		for _, cell := range line.cells {
			l.Tokens = append(l.Tokens, float64(cell.tokens)/width)
			l.Refused = append(l.Refused, float64(cell.refused)/width)
			l.TTFTP50 = append(l.TTFTP50, quantile(cell.ttft, 50))
			l.TTFTP99 = append(l.TTFTP99, quantile(cell.ttft, 99))
			l.LatencyP50 = append(l.LatencyP50, quantile(cell.latency, 50))
			l.LatencyP99 = append(l.LatencyP99, quantile(cell.latency, 99))
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func quantile(h *hdrhistogram.PackedHistogram, percent float64) *float64 {
	if h == nil {
		return nil
	}
	x := inSeconds(h.ValueAtPercentile(percent))
	return &x
}

// WriteHTML writes the report as one page without external resources.
func (r *Report) WriteHTML(out io.Writer) error {
	view := map[string]any{
		"URL": r.URL, "Setting": r.setting(), "Notes": r.Notes,
		"Cards": r.cards(), "Rows": r.htmlRows(), "Times": r.htmlTimes(), "Kinds": r.htmlKinds(),
	}
	if err := page.Write(out, r.URL+" · llmgov load", view, r.course.charts()); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// card is a headline figure, with a figure to compare it with.
type card struct{ Title, Value, Beside string }

func (r *Report) cards() []card {
	f := &r.Total
	list := []card{
		{"tokens a second in whole answers", rate(f.GoodTokens), rate(f.GoodRequests) + " calls a second"},
		{"of the calls that were due are ok", percent(part(float64(f.OK), float64(f.Offered))), fmt.Sprintf("%d of %d", f.OK, f.Offered)},
	}
	for _, t := range []struct {
		title string
		of    Both
	}{{"first token, 99th percentile", f.Times.TTFT}, {"whole answer, 99th percentile", f.Times.Latency}} {
		if t.of.Due != nil {
			list = append(list, card{t.title, text(t.of.Due.P99), "median " + text(t.of.Due.P50) + "; since sent " + text(t.of.Sent.P99)})
		}
	}
	return append(list, card{"refused", percent(part(float64(f.Refused), float64(f.Offered))), fmt.Sprintf("%d calls, %d failed", f.Refused, f.Failed)})
}

type htmlRow struct {
	*Figures
	Calls, Tokens, ShareText, Fill string
	Color                          int
}

func (r *Report) htmlRows() []htmlRow {
	var rows []htmlRow
	for i, f := range r.rows() {
		color := mostLines // the colour of the others
		if i < len(r.Tenants) {
			color = r.course.line[i]
		}
		rows = append(rows, htmlRow{
			f, rate(f.GoodRequests), rate(f.GoodTokens), percent(f.Share),
			strconv.FormatFloat(100*f.Share, 'f', 2, 64), color,
		})
	}
	return rows
}

type htmlTime struct {
	timeRow
	Name, Mean string
	Count      int64
	Five       [5]string
}

func (r *Report) htmlTimes() []htmlTime {
	var rows []htmlTime
	for _, f := range r.rows() {
		name := f.Name
		for _, t := range f.timeRows() {
			rows = append(rows, htmlTime{t, name, text(t.Quantiles.Mean), t.Quantiles.Count, t.Quantiles.five()})
			name = ""
		}
	}
	return rows
}

type htmlKind struct {
	Name, Kind, P50, P99, Max string
	Count                     int64
}

func (r *Report) htmlKinds() []htmlKind {
	var rows []htmlKind
	for i := range r.Tenants {
		f := &r.Tenants[i]
		for _, kinds := range [][]Kind{f.Refusals, f.Failures} {
			for _, k := range kinds {
				row := htmlKind{Name: f.Name, Kind: k.Kind, Count: k.Count}
				if k.Hint != nil {
					row.P50 = text(k.Hint.P50)
					row.P99 = text(k.Hint.P99)
					row.Max = text(k.Hint.Max)
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}
