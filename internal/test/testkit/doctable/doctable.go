// Package doctable holds a page of the documentation to the table that a suite makes of its cases.
package doctable

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Update says that files are written instead of compared, because go test has -update.
var Update = flag.Bool("update", false, "write the suite's table into the documentation")

// end is the line behind a table.
const end = "<!-- end of the table -->\n"

// Check fails t if the table on a page is another. The table stands between the line begin and the end of the
// table. With -update it is written there instead.
func Check(t *testing.T, page, begin, table string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	if table == old {
		return
	}
	if !*Update {
		t.Fatalf("the table in %s is another; go test -run %s -update in this folder writes\n%s", page, t.Name(), table)
	}
	if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
