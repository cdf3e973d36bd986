package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// WriteSummary prints a line for each tenant in each pool: its share, and the limits written in the files.
func (r *Policy) WriteSummary(w io.Writer) error {
	r.writeHead(w)
	rows := 0
	for _, p := range r.Pools {
		fmt.Fprintf(w, "\n%s\n%s\n", p.title(), p.summary())
		if len(p.Tenants) > 0 {
			fmt.Fprintf(w, "\n%s", p.table())
		}
		rows += len(p.Tenants)
	}
	if rows > 0 && r.tenant == "" {
		fmt.Fprintln(w, "\nWith --effective: every limit, and its place in the files. With --tenant NAME: one tenant alone.")
	}
	return r.writeNotes(w)
}

func (r *Policy) writeHead(w io.Writer) {
	if r.tenant != "" {
		fmt.Fprintf(w, "%s is good.\n", r.Config)
		return
	}
	fmt.Fprintf(w, "%s is good. Pools: %d, %s\n", r.Config, len(r.Pools), counted(r.Count, r.Teams))
}

func (r *Policy) writeNotes(w io.Writer) error {
	if len(r.Notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nNote: %s\n", strings.Join(r.Notes, "\nNote: "))
	return err
}

// title is the pool with its upstreams and models.
func (p poolReport) title() string {
	upstream := "upstream"
	if strings.Contains(p.Upstream, ", ") {
		upstream = "upstreams"
	}
	return fmt.Sprintf("Pool %s, %s %s, models %s", p.Name, upstream, p.Upstream, strings.Join(p.models(), ", "))
}

// summary is the capacity that the pool shares.
func (p poolReport) summary() string {
	parts := written(p.Limits, func(l tenants.Limit) string { return grouped(fmt.Sprint(l.Value)) })
	if p.Usable > 0 {
		parts = append(parts, grouped(fmt.Sprint(p.Usable))+" tokens a minute to share")
	}
	if p.Usable > 0 && p.Floors > 0 {
		parts = append(parts, "floors "+grouped(fmt.Sprint(p.Floors)))
	}
	if len(parts) == 0 {
		return "no limits"
	}
	return strings.Join(parts, ", ")
}

// written are the limits that are in the files, as spelled.
func written(limits []tenants.Limit, spelled func(tenants.Limit) string) []string {
	var parts []string
	for _, l := range limits {
		if l.From == "" {
			continue
		}
		text := spelled(l)
		switch {
		case l.Key == "routes": // commas part the settings
			text = "routes " + strings.ReplaceAll(text, ",", "")
		case !strings.HasPrefix(l.Key, "budgets[") && !strings.HasPrefix(l.Key, "limits["):
			text = l.Key + " " + text
		}
		parts = append(parts, text)
	}
	return parts
}

// table has a line for each tenant.
func (p poolReport) table() string {
	rows := [][]string{{"TENANT", "TIER", "SHARE", "TOKENS/MIN", "SETTINGS"}}
	for _, t := range p.Tenants {
		rows = append(rows, p.row(t))
	}
	return Aligned(rows, 2, 3)
}

func (p poolReport) row(t rowsReport) []string {
	tier, share, tpm := p.cells(t)
	parts := written(t.Limits, p.bounded)
	if t.Whole > 0 {
		parts = slices.Insert(parts, 0, "with its teams "+p.whole(t))
	}
	return []string{t.Name, tier, share, tpm, strings.Join(parts, ", ")}
}

// cells are a tenant's tier, share and tokens a minute.
func (p poolReport) cells(t rowsReport) (tier, share, tpm string) {
	tier = t.Tier
	if tier == "" {
		tier = "-"
	}
	if t.Keys == 0 && t.Share == 0 { // only its teams call
		return tier, "-", "-"
	}
	tpm = "-"
	if p.Usable > 0 {
		tpm = grouped(fmt.Sprint(t.TPM))
	}
	return tier, fmt.Sprintf("%.2f %%", t.Share*100), tpm
}

// models are the pool's entries, each with the names by which the upstreams know it, if these differ. Names of models that
// a pattern matches follow.
func (p poolReport) models() []string {
	list := slices.Clone(p.Models)
	for i, model := range list {
		real := cmp.Or(p.Aliases[model], model)
		if names := p.pool.ModelNames(real); names != model {
			list[i] = model + " (" + names + ")"
		}
	}
	behind := slices.Collect(maps.Values(p.Aliases))
	for _, model := range p.pool.Renamed() {
		listed := slices.Contains(p.Models, model) || slices.Contains(behind, model)
		if !listed {
			list = append(list, model+" ("+p.pool.ModelNames(model)+")")
		}
	}
	return list
}

// whole is the share of a tenant together with its teams.
func (p poolReport) whole(t rowsReport) string {
	text := fmt.Sprintf("%.2f %%", t.Whole*100)
	if p.Usable > 0 {
		text += " (" + grouped(fmt.Sprint(t.WholeTPM)) + ")"
	}
	return text
}
