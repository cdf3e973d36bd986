package tenants

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// deaf is a file system of which one folder cannot be listed.
type deaf struct {
	all    fs.FS
	folder string
}

var errIO = errors.New("input/output error")

func (u deaf) Open(name string) (fs.File, error) { return u.all.Open(name) }

func (u deaf) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.folder {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errIO}
	}
	return fs.ReadDir(u.all, name)
}

// TestLoad_Folders seeks policies in several folders: none of them is passed over because it cannot be read.
func TestLoad_Folders(t *testing.T) {
	fsys := files(map[string]string{
		"etc/llmgov.yaml":  goodConfig + "policies: [\"t/*/*.yaml\"]\n",
		"etc/t/a/a.yaml":   "tenants: {acme: {keys: [" + key1 + "]}}\n",
		"etc/t/b/b.yaml":   "tenants: {bob: {keys: [" + key2 + "]}}\n",
		"etc/t/.b/b.yaml":  "a copy",
		"etc/t/..2026/x":   "",
		"etc/t/notes.yaml": "no folder",
	})
	for folder, want := range map[string]string{
		"none":    "",
		"etc/t/b": "etc/llmgov.yaml:5:12: policies[0]: \"t/*/*.yaml\" cannot be searched: etc/t/b: input/output error; fix that, or name other folders",
		"etc/t":   "etc/t: input/output error",
	} {
		s, err := LoadFS(deaf{fsys, folder}, "etc/llmgov.yaml", Options{})
		switch {
		case want == "" && (err != nil || len(s.Tenants()) != 2):
			t.Errorf("%v, %v", s, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("without %s: %v, want %q", folder, err, want)
		}
	}
}

// TestLoad_Pipe: a pipe among the policies, or in the key file's place, is a problem, and nobody waits for it.
func TestLoad_Pipe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"llmgov.yaml": goodConfig, "tenants/a.yaml": goodPolicy} {
		testkit.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, "tenants"), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)))
	}
	for _, pipe := range []string{"tenants/z.yaml", "llmgov.keys.yaml"} {
		path := filepath.Join(dir, pipe)
		if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
			t.Skipf("no pipes here: %v: %s", err, out)
		}
		if _, err := Load(filepath.Join(dir, "llmgov.yaml"), Options{}); err == nil || !strings.Contains(err.Error(), pipe+": cannot be read: it is not a regular file") {
			t.Errorf("%s: %v", pipe, err)
		}
		if err := keyfile.New(path).Add(runtimeKey("acme", "a")); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", pipe, err)
		}
		testkit.OK(t, os.Remove(path))
	}
}
