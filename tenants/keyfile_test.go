package tenants

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var aTime = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// runtimeKey is a key that was made at run time, and that "of-"+name opens.
func runtimeKey(tenant, name string) RuntimeKey {
	return RuntimeKey{Key: Key{Hash: HashKey("of-" + name), Name: name}, Tenant: tenant, Created: aTime}
}

// TestKeyFile_Bad loads each testdata/keyfile file and compares all problems, word for word, like the bad corpus. No
// writer may touch what is damaged.
func TestKeyFile_Bad(t *testing.T) {
	cases, _ := filepath.Glob("testdata/keyfile/*.txt")
	if len(cases) < 3 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, file := range cases {
		head, sections := split(t, file)
		_, err := loadSections(sections)
		problems, ok := errors.AsType[Problems](err)
		if !ok {
			t.Fatalf("%s: %v, want problems", file, err)
		}
		if *update {
			head, _, _ = strings.Cut(head, "-- want --\n")
			if err := os.WriteFile(file, []byte(head+"-- want --\n"+problems.Error()+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(strings.TrimSpace(sections["want"]), problems.Error()); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", file, diff)
		}
		for name, text := range sections {
			if strings.HasSuffix(name, "keys.yaml") {
				checkUntouched(t, file, text)
			}
		}
	}
}

// checkUntouched fails if a writer changes a file that holds text.
func checkUntouched(t *testing.T, what, text string) {
	t.Helper()
	f := NewKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err := os.WriteFile(f.Path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := f.Add(runtimeKey("acme", "n"))
	_, errRevoke := f.Revoke(HashKey("x"), aTime)
	for _, err := range []error{err, errRevoke} {
		if _, ok := errors.AsType[Problems](err); !ok {
			t.Errorf("%s: written with %v, want problems", what, err)
		}
	}
	if got, _ := os.ReadFile(f.Path()); string(got) != text {
		t.Errorf("%s: the file was changed to\n%s", what, got)
	}
}

func TestKeyFile_Changes(t *testing.T) {
	dir := t.TempDir()
	f := NewKeyFile(filepath.Join(dir, "llmgov.keys.yaml"))
	if got, err := f.List(); err != nil || len(got.Keys)+len(got.Revoked) != 0 {
		t.Fatalf("a file that is not there holds %v, %v", got, err)
	}
	a := runtimeKey("acme", "a")
	b := runtimeKey("$x/t\"", "b")
	b.Expires = aTime.Add(time.Hour)
	b.Name = ""
	for _, k := range []RuntimeKey{a, b} {
		if err := f.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Add(a); !errors.Is(err, ErrKeyTaken) {
		t.Errorf("added twice: %v", err)
	}
	since, err := f.Revoke(a.Hash, aTime.Add(time.Millisecond))
	if err != nil || !since.Equal(aTime) {
		t.Errorf("revoked since %v, %v", since, err)
	}
	if again, err := f.Revoke(a.Hash, aTime.Add(time.Hour)); err != nil || !again.Equal(since) {
		t.Errorf("revoked again since %v, %v; want %v", again, err, since)
	}
	if err := f.Add(a); !errors.Is(err, ErrKeyRevoked) {
		t.Errorf("added after it was revoked: %v", err)
	}
	late := runtimeKey("a", "late")
	late.Expires = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) // in UTC there are five digits
	for _, bad := range []RuntimeKey{runtimeKey("", "n"), runtimeKey("a b", "n"), runtimeKey("a", "n\n"), late} {
		if err := f.Add(bad); err == nil {
			t.Errorf("took %+v", bad)
		}
	}
	got, err := NewKeyFile(f.Path()).List()
	if diff := cmp.Diff(RuntimeKeys{Keys: []RuntimeKey{b}, Revoked: []RevokedKey{{a.Hash, aTime}}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{"llmgov.keys.yaml", "llmgov.keys.yaml.lock"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("left in the folder: %v", list)
	}
}

// TestKeyFile_Encode: whatever may be in the file reads as it was written.
func TestKeyFile_Encode(t *testing.T) {
	name := rapid.StringOf(rapid.Rune()).Filter(func(s string) bool { return checkName(s) == "" })
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 253_402_300_799).Draw(t, "at"), 0).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		var want RuntimeKeys
		for i := range rapid.IntRange(0, 4).Draw(t, "keys") {
			k := RuntimeKey{Key: Key{Hash: HashKey(fmt.Sprint(i))}, Tenant: name.Draw(t, "tenant"), Created: instant.Draw(t, "created")}
			if rapid.Bool().Draw(t, "more") {
				k.Name, k.Expires = name.Draw(t, "name"), instant.Draw(t, "expires")
			}
			want.Keys = append(want.Keys, k)
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "revoked") {
			want.Revoked = append(want.Revoked, RevokedKey{HashKey(fmt.Sprint(-i)), instant.Draw(t, "at")})
		}
		r := strictyaml.NewReport()
		got := readKeys(r, "keys.yaml", encodeKeys(want))
		if diff := cmp.Diff(want, got); r.Err() != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s\n%s", r.Err(), diff, encodeKeys(want))
		}
	})
}

// TestKeyFile_ManyWriters: each has the file open for itself, as processes do, some by a link. Nothing is lost.
func TestKeyFile_ManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.yaml")
	link := filepath.Join(dir, "link.yaml")
	if err := NewKeyFile(path).Add(runtimeKey("acme", "first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("keys.yaml", link); err != nil {
		t.Fatal(err)
	}
	const writers, each = 6, 8
	var wg sync.WaitGroup
	want := map[string]bool{"first": true}
	for w := range writers {
		for n := range each {
			want[fmt.Sprintf("k%d-%d", w, n)] = n%4 > 0 // each fourth is revoked again
		}
		f := NewKeyFile([]string{path, link}[w%2])
		wg.Go(func() {
			for n := range each {
				k := runtimeKey("acme", fmt.Sprintf("k%d-%d", w, n))
				if err := f.Add(k); err != nil {
					t.Error(err)
				}
				if n%4 > 0 {
					continue
				}
				if _, err := f.Revoke(k.Hash, aTime); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := NewKeyFile(path).List()
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, k := range got.Keys {
		left[k.Name] = true
	}
	maps.DeleteFunc(want, func(_ string, kept bool) bool { return !kept })
	if diff := cmp.Diff(want, left); diff != "" || len(got.Revoked) != writers*each/4 {
		t.Errorf("%d revoked, keys (-want +got):\n%s", len(got.Revoked), diff)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
}

// TestKeyFile_Links: a link stays one, also when what it leads to is not there yet, and the file keeps its permissions.
func TestKeyFile_Links(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "volume", "deep"), 0o755))
	must(os.Symlink("volume/deep", filepath.Join(dir, "d")))
	must(os.Symlink("d/one.yaml", filepath.Join(dir, "k.yaml")))
	must(os.Symlink("../real.yaml", filepath.Join(dir, "volume", "deep", "one.yaml")))
	f := NewKeyFile(filepath.Join(dir, "k.yaml"))
	real := filepath.Join(dir, "volume", "real.yaml")
	must(f.Add(runtimeKey("acme", "a")))
	must(os.Chmod(real, 0o664))
	must(f.Add(runtimeKey("acme", "b")))
	if got, err := NewKeyFile(real).List(); err != nil || len(got.Keys) != 2 {
		t.Errorf("behind the links: %v, %v", got, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o664 {
		t.Errorf("permissions: %v, %v", info, err)
	}
	must(os.Symlink("loop.yaml", filepath.Join(dir, "loop.yaml")))
	if err := NewKeyFile(filepath.Join(dir, "loop.yaml")).Add(runtimeKey("acme", "a")); err == nil || !strings.Contains(err.Error(), "links") {
		t.Errorf("in a loop: %v", err)
	}
}

// TestKeyFile_Full: a file that could not be read again is not written.
func TestKeyFile_Full(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("keys: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, make([]byte, strictyaml.MaxBytes+1)); !errors.Is(err, errKeyFileFull) {
		t.Errorf("got %v", err)
	}
	if got, err := NewKeyFile(path).List(); err != nil || len(got.Keys) != 0 {
		t.Errorf("the file holds %v, %v", got, err)
	}
}

// TestSnapshot_Keys checks who opens what, with keys from all places.
func TestSnapshot_Keys(t *testing.T) {
	overlaid := runtimeKey("acme", "overlaid")
	twice := runtimeKey("bob", "twice")
	revoked := runtimeKey("bob", "revoked")
	fsys := files(map[string]string{
		"etc/llmgov.yaml": goodConfig + "policies: [\"*.keys.yaml\", \"t/*.yaml\"]\n",
		"etc/t/a.yaml": fmt.Sprintf("tenants: {acme: {keys: [%q, %q]}, bob: {keys: [%q, %q]}}\n",
			HashKey("of-acme"), twice.Hash, HashKey("of-bob"), overlaid.Hash),
		"etc/x.keys.yaml": "tenants: {carl: {keys: [" + key1 + "]}}\n", // a policy file by its name's side
		"etc/llmgov.keys.yaml": string(encodeKeys(RuntimeKeys{
			Keys: []RuntimeKey{runtimeKey("acme", "ci"), overlaid, runtimeKey("gone", "inert"), revoked},
			Revoked: []RevokedKey{
				{revoked.Hash, aTime},
				{twice.Hash, aTime},
				{HashKey("of-nobody"), aTime},
			},
		})),
	})
	s, err := LoadFS(fsys, "etc/llmgov.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	opens := func(s *Snapshot) string {
		var said []string
		for _, name := range []string{"acme", "bob", "ci", "overlaid", "twice", "inert", "revoked", "late"} {
			if tn, k, ok := s.Lookup("of-" + name); ok {
				said = append(said, name+"→"+tn.Name)
				if k.Hash != HashKey("of-"+name) {
					t.Errorf("%s finds another key", name)
				}
			}
		}
		return strings.Join(said, " ")
	}
	if got, want := opens(s), "acme→acme bob→bob ci→acme overlaid→bob"; got != want {
		t.Errorf("these open: %s, want %s", got, want)
	}
	var list []string
	for _, k := range s.Keys() {
		list = append(list, fmt.Sprintf("%s %q runtime=%v %s", k.Tenant, k.Name, k.Runtime, k.Status))
	}
	slices.Sort(list)
	if diff := cmp.Diff([]string{
		`acme "" runtime=false active`,
		`acme "" runtime=false revoked`,
		`acme "ci" runtime=true active`,
		`acme "overlaid" runtime=true overlaid`,
		`bob "" runtime=false active`,
		`bob "" runtime=false active`,
		`bob "revoked" runtime=true revoked`,
		`carl "" runtime=false active`,
		`gone "inert" runtime=true no_tenant`,
	}, list); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	later := s.WithKeys(RuntimeKeys{Keys: []RuntimeKey{runtimeKey("bob", "late")}})
	if got, want := opens(later), "acme→acme bob→bob overlaid→bob twice→acme late→bob"; got != want {
		t.Errorf("with other keys these open: %s, want %s", got, want)
	}
	if s.Hash() != later.Hash() || s.Equal(later) || !s.WithKeys(s.runtime.RuntimeKeys).Equal(s) {
		t.Error("keys made at run time belong to what is equal, and not to the policy's hash")
	}
	if got := opens(s); !strings.Contains(got, "ci→acme") {
		t.Errorf("the first snapshot has changed: %s", got)
	}
}

// TestShares_Keys: who has a share is who has a key, wherever that is from.
func TestShares_Keys(t *testing.T) {
	s, err := loadSections(map[string]string{
		"llmgov.yaml":    goodConfig,
		"tenants/a.yaml": "tenants: {acme: {keys: []}, bob: {keys: [" + key1 + "]}}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	shares := func(s *Snapshot) string {
		var said []string
		for _, sh := range s.Shares(&s.Pools()[0]) {
			said = append(said, fmt.Sprintf("%s %.2f", sh.Tenant.Name, sh.Part))
		}
		return strings.Join(said, ", ") + fmt.Sprint(" ", len(s.Uncalled(&s.Pools()[0])))
	}
	revoked := []RevokedKey{{s.Tenants()[1].Keys[0].Hash, aTime}}
	made := []RuntimeKey{runtimeKey("acme", "late")}
	for _, c := range []struct {
		keys RuntimeKeys
		want string
	}{
		{RuntimeKeys{}, "bob 1.00 0"},
		{RuntimeKeys{Keys: made}, "acme 0.50, bob 0.50 0"},
		{RuntimeKeys{Keys: made, Revoked: revoked}, "acme 1.00 0"},
		{RuntimeKeys{Revoked: revoked}, " " + fmt.Sprint(len(s.Pools()[0].Models))},
	} {
		if got := shares(s.WithKeys(c.keys)); got != c.want {
			t.Errorf("with %+v: %s, want %s", c.keys, got, c.want)
		}
	}
}

// FuzzKeyFile: any text is understood in full or not at all, and what is understood is written so that it is again.
func FuzzKeyFile(f *testing.F) {
	f.Add(string(encodeKeys(RuntimeKeys{Keys: []RuntimeKey{runtimeKey("a", "n")}, Revoked: []RevokedKey{{HashKey("x"), aTime}}})))
	seeds, _ := filepath.Glob("testdata/keyfile/*.txt")
	for _, file := range seeds {
		_, sections := split(f, file)
		f.Add(sections["llmgov.keys.yaml"])
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := strictyaml.NewReport()
		first := readKeys(r, "keys.yaml", []byte(text))
		if err := r.Err(); err != nil {
			checkProblems(t, nil, err)
			return
		}
		written := encodeKeys(first)
		again := readKeys(r, "keys.yaml", written)
		if err := r.Err(); err != nil || string(encodeKeys(again)) != string(written) {
			t.Fatalf("%v\n%s\nread again as\n%s", err, written, encodeKeys(again))
		}
	})
}
