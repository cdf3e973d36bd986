// Package htmlpage makes reports: each is one HTML file without external resources,
// with charts that can be read with the mouse. A report has a template for its body
// and a script that lists its charts (assets/charts.js draws them); style, chart
// library and output are here.
package htmlpage

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
)

//go:embed assets/page.html assets/page.css assets/charts.js assets/uplot
var assets embed.FS

// asset is a file that is put into every report.
func asset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	return string(data)
}

// UPlot is the chart library: uPlot.iife.min.js, uPlot.min.css and its LICENSE.
func UPlot() fs.FS {
	dir, err := fs.Sub(assets, "assets/uplot")
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	return dir
}

// Page is a kind of report.
type Page struct {
	tmpl   *template.Template
	script template.JS
}

// New is a kind of report with this body, a text of html/template, and this script. It
// panics if the body is invalid, because both are part of the program.
func New(body, script string) *Page {
	tmpl := template.Must(template.New("page.html").ParseFS(assets, "assets/page.html"))
	template.Must(tmpl.New("body").Parse(body))
	return &Page{tmpl, template.JS(script)}
}

// Write writes one report: the body is executed with view, and the script finds data
// as charts.data.
func (p *Page) Write(out io.Writer, title string, view, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("the report's charts: %w", err)
	}
	err = p.tmpl.Execute(out, map[string]any{
		"Title": title, "View": view,
		// These come from the embedded files and from json.Marshal, which escapes
		// what could end a script.
		"PlotCSS": template.CSS(asset("uplot/uPlot.min.css")),
		"CSS":     template.CSS(asset("page.css")),
		"Plot":    template.JS("/*!\n" + asset("uplot/LICENSE") + "\n*/\n" + asset("uplot/uPlot.iife.min.js")),
		"Charts":  template.JS(asset("charts.js")),
		"Script":  p.script,
		"Data":    template.JS(encoded),
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
