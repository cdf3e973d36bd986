package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgov/llmgov/tenants"
)

// WriteEffective prints, for each pool, every limit that applies to each tenant, and its place in the files.
func (r *Policy) WriteEffective(w io.Writer) error {
	r.writeHead(w)
	for _, p := range r.Pools {
		fmt.Fprintf(w, "\n%s\n\n", p.title())
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		p.write(tw)
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return r.writeNotes(w)
}

// write prints every limit of each tenant in the pool, and its place in the files.
func (p poolReport) write(w io.Writer) {
	fmt.Fprint(w, "  TENANT\tTIER\tSHARE\tTOKENS/MIN\tLIMIT\tVALUE\tFROM\n")
	name := "(the pool)"
	tpm := "-"
	if p.Usable > 0 {
		tpm = grouped(fmt.Sprint(p.Usable))
	}
	share := "100 %"
	for _, l := range p.Limits {
		fmt.Fprintf(w, "  %s\t\t%s\t%s\t%s\t%s\t%s\n", name, share, tpm, l.Key, grouped(fmt.Sprint(l.Value)), line(l.From))
		name = ""
		share = ""
		tpm = ""
	}
	if p.Usable > 0 && p.Floors > 0 {
		fmt.Fprintf(w, "  \t\t\t\tfloors in all\t%s of %s\tall its tenants\n", grouped(fmt.Sprint(p.Floors)), grouped(fmt.Sprint(p.Usable)))
	}
	for _, t := range p.Tenants {
		p.writeTenant(w, t)
	}
}

func (p poolReport) writeTenant(w io.Writer, t rowsReport) {
	name := t.Name
	tier, share, tpm := p.cells(t)
	if t.Whole > 0 {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\twith its teams\t%s\tall its keys\n", name, tier, share, tpm, p.whole(t))
		name = ""
		tier = ""
		share = ""
		tpm = ""
	}
	for _, l := range t.Limits {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%v\t%s\n", name, tier, share, tpm, l.Key, p.bounded(l), line(l.From))
		name = ""
		tier = ""
		share = ""
		tpm = ""
	}
}

// bounded is a tenant's limit, with its parent if it is a parent's, and with the pool's limit if that is lower.
func (p poolReport) bounded(l tenants.Limit) string {
	text := grouped(fmt.Sprint(l.Value))
	if l.Of != "" {
		text += " (of " + l.Of + ")"
	}
	own, isNumber := l.Value.(json.Number)
	if !isNumber {
		return text
	}
	n, err := own.Int64()
	if err != nil {
		return text
	}
	for _, of := range p.Limits {
		if has, ok := of.Value.(json.Number); ok && of.Key == strings.TrimPrefix(l.Key, "pools."+p.Name+".") {
			if most, err := has.Int64(); err == nil && most < n {
				return fmt.Sprintf("%s (the pool has %s)", text, grouped(fmt.Sprint(most)))
			}
		}
	}
	return text
}
