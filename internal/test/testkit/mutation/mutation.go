// Package mutation breaks the rules of a package in its source, one at a time, and checks
// that a test fails.
//
// Passing tests show little unless it is known which mistakes they would notice. So a package
// lists its rules with the place of each in the source, and a broken replacement; a rule that
// can be broken without a failing test is not tested.
package mutation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Mutant is a broken rule: the text in the source, its replacement, and the test that has to
// fail.
type Mutant struct {
	Rule, File, Old, New string
	Test                 string
	Args                 []string // more arguments of the test
}

// inside is the variable that is set while a mutant's own tests run.
const inside = "LLMGOV_MUTANT"

// Run breaks each rule of the package in the working folder, in the source itself, and runs the
// test that has to fail, with args. Unless try is set it only checks that the source has the listed texts.
func Run(t *testing.T, try bool, list []Mutant, args ...string) {
	if os.Getenv(inside) != "" {
		t.Skip("this is one")
	}
	for _, m := range list {
		source, err := os.ReadFile(m.File)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.Old); n != 1 {
			t.Errorf("%s: the table of mutants is out of date: %q is there %d times in %s", m.Rule, m.Old, n, m.File)
			continue
		}
		if try {
			t.Run(strings.ReplaceAll(m.Rule, " ", "-"), func(t *testing.T) {
				m.caught(t, strings.Replace(string(source), m.Old, m.New, 1), args)
			})
		}
	}
}

// caught runs the mutant's test over the changed source, and checks that it fails.
func (m *Mutant) caught(t *testing.T, source string, args []string) {
	overlay := m.overlay(t, source)
	test := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-timeout", "60s", "-run", "^"+m.Test+"$", "-v", ".")
	test.Args = append(append(test.Args, args...), m.Args...)
	test.Env = append(os.Environ(), inside+"=1")
	out, err := test.CombinedOutput()
	_, failure, failed := strings.Cut(string(out), "--- FAIL")
	switch {
	case err == nil:
		t.Errorf("nobody notices: %s\n%.200s", m.Rule, out)
	case !failed:
		t.Errorf("%s: it does not run:\n%.400s", m.Rule, out)
	default:
		t.Logf("caught by %s%.300s", m.Test, failure)
	}
}

// overlay is go test's overlay file with the changed source.
func (m *Mutant) overlay(t *testing.T, source string) string {
	dir := t.TempDir()
	changed := filepath.Join(dir, m.File)
	overlay := filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(m.File)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{changed: source, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
