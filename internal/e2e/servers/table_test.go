package servers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/doctable"
)

// TestTable_IsOfTheSuite: the documentation promises what the suite tests.
func TestTable_IsOfTheSuite(t *testing.T) {
	doctable.Check(t, "../../../docs/upstreams.md", "<!-- table of servers and cases: made by internal/e2e/servers -->\n", table())
}

// table has a row for each case and each wrong call, and a column for each server.
func table() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, s := range servers {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, c := range cases {
		b.WriteString("| " + c.title + " |" + strings.Repeat(" yes |", len(servers)) + "\n")
	}
	for _, w := range wrong {
		b.WriteString("| its answer to " + w.title + " |")
		for _, s := range servers {
			b.WriteString(" " + s.refuses[w.name].String() + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (r refusal) String() string {
	if r.kind == "" {
		return fmt.Sprint(r.status)
	}
	return fmt.Sprintf("%d `%s`", r.status, r.kind)
}
