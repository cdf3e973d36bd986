package tenants

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/internal/disk"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// later is a clock by which every file has been at rest for long, so that stamps are trusted.
func later() time.Time { return time.Now().Add(time.Hour) }

// TestSeen: a file whose stamp stays is not read again and not parsed again, nor is a digest of its tenants made; one that changes is, even when its
// size and its time of modification are what they were. What comes of it is what a first load makes of the files.
func TestSeen(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		full := filepath.Join(dir, name)
		testkit.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		testkit.OK(t, os.WriteFile(full, []byte(text), 0o644))
		return full
	}
	config := write("llmgov.yaml", goodConfig)
	policy := func(rpm string) string {
		return "tenants: {acme: {rpm: " + rpm + ", keys: [" + key1 + "]}}\n"
	}
	acme := write("tenants/a.yaml", policy("11"))
	write("tenants/b.yaml", "tenants: {beta: {keys: ["+key2+"]}}\n")
	l := testkit.Must(newLoader(config, Options{}))(t)
	l.clock = later
	rpm := func() int64 {
		t.Helper()
		s := testkit.Must(load(l))(t)
		if fresh := testkit.Must(Load(config, Options{}))(t); !s.Equal(fresh) || s.Hash() != fresh.Hash() {
			t.Errorf("the snapshot is not that of a first load, whose tenants are %+v, but of %+v", fresh.Tenants(), s.Tenants())
		}
		return s.Tenants()[0].RPM
	}
	if got := rpm(); got != 11 {
		t.Fatalf("rpm %d, want 11", got)
	}
	name := func(suffix string) string {
		for name := range l.seen {
			if strings.HasSuffix(name, suffix) {
				return name
			}
		}
		return ""
	}
	a := name("tenants/a.yaml")
	b := name("tenants/b.yaml")
	loaded := l.sum()
	of := func(name string) *Tenant { return &l.seen[name].tenants[0] }
	readA := of(a)
	readB := of(b)
	if l.look([]string{"tenants/*.yaml"}) != loaded {
		t.Error("nothing has changed, and it looks so")
	}

	info := testkit.Must(os.Stat(acme))(t)
	for changed := false; !changed; { // until the file system's clock has ticked
		write("tenants/a.yaml", policy("12"))
		testkit.OK(t, os.Chtimes(acme, info.ModTime(), info.ModTime()))
		now := testkit.Must(os.Stat(acme))(t)
		changed = disk.StampOf(now) != disk.StampOf(info) || disk.StampOf(now) == disk.Stamp{}
	}
	if l.look([]string{"tenants/*.yaml"}) == loaded {
		t.Error("a change of the same size and time of modification is not seen")
	}
	if got := rpm(); got != 12 {
		t.Errorf("after the change: rpm %d, want 12", got)
	}
	if of(a) == readA || of(b) != readB {
		t.Error("want what changed read again, and nothing else")
	}
	l.seen[b].sums[0] = sum{1}
	if s := testkit.Must(load(l))(t); s.sums[0] == (sum{1}) || s.sums[1] != (sum{1}) {
		t.Error("want the digest of what changed made again, and no other")
	}
	write("llmgov.yaml", strings.Replace(goodConfig, "main: {models: [gpt-4o], tpm: 1000}", "main: {models: [gpt-4o], tpm: 1000}\n  more: {models: [o1], tpm: 1}\ndefault_pool: more", 1))
	if got := rpm(); got != 12 {
		t.Errorf("with another config: rpm %d, want 12", got)
	}

	testkit.OK(t, os.Remove(acme))
	testkit.Must(load(l))(t)
	if _, known := l.seen[a]; known {
		t.Error("a file that is gone is remembered")
	}
}

// TestSeen_Restless: the stamp of a file that changed just now is not trusted, for the next change may bear it too; nor
// is any for longer than a minute.
func TestSeen_Restless(t *testing.T) {
	config := filepath.Join(t.TempDir(), "llmgov.yaml")
	testkit.OK(t, os.WriteFile(config, []byte(goodConfig), 0o644))
	info := testkit.Must(os.Stat(config))(t)
	if disk.StampOf(info) == (disk.Stamp{}) {
		t.Skip("there are no stamps on this system")
	}
	l := testkit.Must(newLoader(config, Options{}))(t)
	changed := disk.StampOf(info).Changed()
	for _, c := range []struct {
		read, look time.Duration // since the change
		same       bool
	}{
		{0, time.Second, false},
		{restless, restless, false},
		{restless + time.Second, restless + 2*time.Second, true},
		{restless + time.Second, restless + time.Second + mostTrusted, true},
		{restless + time.Second, restless + 2*time.Second + mostTrusted, false},
		{-time.Hour, 0, false}, // a clock that was put back
	} {
		at := c.read
		l.clock = func() time.Time { return changed.Add(at) }
		l.begin()
		testkit.Must(l.readFile(l.config))(t)
		at = c.look
		if _, same := l.same(l.config); same != c.same {
			t.Errorf("read %s and looked at %s after the change: same %v, want %v", c.read, c.look, same, c.same)
		}
		l.distrust()
		if _, same := l.same(l.config); same {
			t.Error("a file is taken for unchanged though it was asked for")
		}
	}
}

// TestSeen_Problems: a file with problems is not remembered as parsed, so they are said each time.
func TestSeen_Problems(t *testing.T) {
	l := &loader{fsys: files(map[string]string{"llmgov.yaml": goodConfig, "tenants/a.yaml": "tenants: {a: {rpm: \"${NO}\"}}\n"}), config: "llmgov.yaml", shown: "llmgov.yaml"}
	_, first := load(l)
	_, second := load(l)
	if first == nil || second == nil || first.Error() != second.Error() || !strings.Contains(first.Error(), "only in the config file") {
		t.Errorf("first %v, then %v", first, second)
	}
}

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
