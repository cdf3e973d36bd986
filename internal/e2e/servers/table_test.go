package servers

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of servers and cases into the documentation")

const (
	page  = "../../../docs/upstreams.md"
	begin = "<!-- table of servers and cases: made by internal/e2e/servers -->\n"
	end   = "<!-- end of the table -->\n"
)

// TestTable_IsOfTheSuite: the documentation promises what the suite tests.
func TestTable_IsOfTheSuite(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	is := table()
	if is == old {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is another; go test ./internal/e2e/servers -run Table -update writes\n%s", page, is)
	}
	if err := os.WriteFile(page, []byte(before+begin+is+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
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
