package doors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/doctable"
)

// TestTable_IsOfTheSuite: the documentation promises what the suite tests, and names what a door cannot do.
func TestTable_IsOfTheSuite(t *testing.T) {
	doctable.Check(t, "../../../docs/integrations.md", "<!-- table of doors and cases: made by internal/e2e/doors -->\n", table())
}

// table has a row for each case and a column for each door, and the reasons for what is impossible below.
func table() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, d := range doors {
		b.WriteString(" " + d.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(doors)) + "\n")
	var reasons []string
	for _, c := range cases {
		b.WriteString("| " + c.title + " |")
		for _, d := range doors {
			cell := d.keeps(c.name)
			why := d.Cannot[c.name]
			if why != "" {
				cell = "no"
			}
			if c.name == "ends" && d.Loses != "" {
				why = d.Loses
			}
			if why != "" && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
			if why != "" {
				cell += fmt.Sprintf(" (%d)", slices.Index(reasons, why)+1)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	for i, why := range reasons {
		fmt.Fprintf(&b, "\n%d. %s", i+1, why)
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// keeps is how a door keeps a case.
func (d *Door) keeps(name string) string {
	if name == "llmgov" {
		return "the call " + string(d.InFlight) + "; new ones " + string(d.Away)
	}
	return "yes"
}
