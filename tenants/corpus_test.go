package tenants

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/doctable"
)

const (
	goodConfig = `upstreams:
  openai: {base_url: "https://api.openai.com/v1"}
pools:
  main: {models: [gpt-4o], tpm: 1000}
`
	goodPolicy = `tenants:
  acme: {keys: ["sha256:1111111111111111111111111111111111111111111111111111111111111111"]}
`
)

// TestBadCorpus loads each testdata/bad file and compares all problems, word for word. A case replaces parts of a good
// configuration; what it does not mention stays good. Run with -update after changing a message, and read the diff.
func TestBadCorpus(t *testing.T) {
	cases, _ := filepath.Glob("testdata/bad/*.txt")
	if len(cases) < 50 {
		t.Fatalf("found %d cases in testdata/bad, want at least 50", len(cases))
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			head, sections := split(t, file)
			snap, err := loadSections(sections)
			problems, ok := errors.AsType[Problems](err)
			if !ok || snap != nil {
				t.Fatalf("got snapshot %v, error %v; want problems", snap, err)
			}
			if *doctable.Update {
				head, _, _ = strings.Cut(head, "-- want --\n")
				testkit.OK(t, os.WriteFile(file, []byte(head+"-- want --\n"+problems.Error()+"\n"), 0o644))
				return
			}
			if diff := cmp.Diff(strings.TrimSpace(sections["want"]), problems.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGoodCorpus loads each testdata/good file. What the values come to is the business of other tests.
func TestGoodCorpus(t *testing.T) {
	cases, _ := filepath.Glob("testdata/good/*.txt")
	if len(cases) == 0 {
		t.Fatal("found no case in testdata/good")
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			_, sections := split(t, file)
			s := testkit.Must(loadSections(sections))(t)
			checkSnapshot(t, s)
		})
	}
}

// split cuts a case into its sections, each begun by a line "-- name --".
func split(t testing.TB, file string) (whole string, sections map[string]string) {
	t.Helper()
	data := testkit.Must(os.ReadFile(file))(t)
	sections = map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		if inner, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(inner, " --\n") {
			name = strings.TrimSuffix(inner, " --\n")
			sections[name] = ""
			continue
		}
		if name != "" {
			sections[name] += line
		}
	}
	return string(data), sections
}

// loadSections loads the good configuration with some of its parts replaced.
func loadSections(sections map[string]string) (*Snapshot, error) {
	files := map[string]string{"llmgov.yaml": goodConfig, "tenants/a.yaml": goodPolicy}
	maps.Copy(files, sections)
	opt := Options{Env: strings.Split(files["env"], "\n"), Flags: map[string]string{}}
	for line := range strings.Lines(files["flags"]) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), "=")
		opt.Flags[key] = val
	}
	fsys := fstest.MapFS{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".json") {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return LoadFS(fsys, "llmgov.yaml", opt)
}
