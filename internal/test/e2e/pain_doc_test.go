package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var (
	painRow  = regexp.MustCompile(`(?m)^\| (P-\d+) \|.*$`)
	testName = regexp.MustCompile("`(Test\\w+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	painTest = regexp.MustCompile(`^TestP(\d+)_`)
)

// Every test that docs/pain-points.md names is there, each row names one, and each test
// that is named after a row stands in it.
func TestPainPointsAreTested(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../docs/pain-points.md"))(t)
	there := testsOf(t, "../../..")
	shown := map[string]string{} // names of tests by row
	for _, row := range painRow.FindAllStringSubmatch(string(doc), -1) {
		if shown[row[1]] != "" {
			t.Errorf("%s is there twice", row[1])
		}
		for _, name := range testName.FindAllStringSubmatch(row[0], -1) {
			shown[row[1]] += name[1] + " "
		}
		if shown[row[1]] == "" {
			t.Errorf("%s names no test", row[1])
		}
	}
	if len(shown) < 40 {
		t.Errorf("%d rows are found", len(shown))
	}
	for _, name := range testName.FindAllStringSubmatch(string(doc), -1) {
		if !there[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	for name := range there {
		if n := painTest.FindStringSubmatch(name); n != nil && !strings.Contains(shown["P-"+n[1]], name+" ") {
			t.Errorf("row P-%s does not name %s", n[1], name)
		}
	}
}

// testsOf finds the names of all tests below a folder.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	testkit.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names[name[1]] = true
		}
		return err
	}))
	return names
}
