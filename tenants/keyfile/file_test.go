package keyfile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var madeAt = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// entryOf is a key that was made at run time, and that "of-"+name opens.
func entryOf(tenant, name string) Entry {
	return Entry{Key: Key{Hash: HashKey("of-" + name), Name: name}, Tenant: tenant, Created: madeAt}
}

func TestKeyFile_Changes(t *testing.T) {
	dir := t.TempDir()
	f := New(filepath.Join(dir, "llmgov.keys.yaml"))
	if got, err := f.List(); err != nil || len(got.Keys)+len(got.Revoked) != 0 {
		t.Fatalf("a file that is not there holds %v, %v", got, err)
	}
	a := entryOf("acme", "a")
	b := entryOf("$x/t\"", "b")
	b.Expires = madeAt.Add(time.Hour)
	b.Name = ""
	for _, k := range []Entry{a, b} {
		testkit.OK(t, f.Add(k))
	}
	if err := f.Add(a); !errors.Is(err, ErrTaken) {
		t.Errorf("added twice: %v", err)
	}
	since, err := f.Revoke(a.Hash, madeAt.Add(time.Millisecond))
	if err != nil || !since.Equal(madeAt) {
		t.Errorf("revoked since %v, %v", since, err)
	}
	if again, err := f.Revoke(a.Hash, madeAt.Add(time.Hour)); err != nil || !again.Equal(since) {
		t.Errorf("revoked again since %v, %v; want %v", again, err, since)
	}
	if err := f.Add(a); !errors.Is(err, ErrRevoked) {
		t.Errorf("added after it was revoked: %v", err)
	}
	late := entryOf("a", "late")
	late.Expires = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) // in UTC there are five digits
	for _, bad := range []Entry{entryOf("", "n"), entryOf("a b", "n"), entryOf("a", "n\n"), late} {
		if err := f.Add(bad); err == nil {
			t.Errorf("took %+v", bad)
		}
	}
	got, err := New(f.Path()).List()
	if diff := cmp.Diff(Content{Keys: []Entry{b}, Revoked: []Revoked{{a.Hash, madeAt}}}, got); err != nil || diff != "" {
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
	name := rapid.StringOf(rapid.Rune()).Filter(func(s string) bool { return strictyaml.CheckName(s) == "" })
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 253_402_300_799).Draw(t, "at"), 0).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		var want Content
		for i := range rapid.IntRange(0, 4).Draw(t, "keys") {
			k := Entry{Key: Key{Hash: HashKey(fmt.Sprint(i))}, Tenant: name.Draw(t, "tenant"), Created: instant.Draw(t, "created")}
			if rapid.Bool().Draw(t, "more") {
				k.Name, k.Expires = name.Draw(t, "name"), instant.Draw(t, "expires")
			}
			want.Keys = append(want.Keys, k)
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "revoked") {
			want.Revoked = append(want.Revoked, Revoked{HashKey(fmt.Sprint(-i)), instant.Draw(t, "at")})
		}
		r := strictyaml.NewReport()
		got := Parse(r, "keys.yaml", Encode(want))
		if diff := cmp.Diff(want, got); r.Err() != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s\n%s", r.Err(), diff, Encode(want))
		}
	})
}

// TestKeyFile_ManyWriters: each has the file open for itself, as processes do, some by a link. Nothing is lost.
func TestKeyFile_ManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.yaml")
	link := filepath.Join(dir, "link.yaml")
	testkit.OK(t, New(path).Add(entryOf("acme", "first")))
	testkit.OK(t, os.Symlink("keys.yaml", link))
	const writers, each = 6, 8
	var wg sync.WaitGroup
	want := map[string]bool{"first": true}
	for w := range writers {
		for n := range each {
			want[fmt.Sprintf("k%d-%d", w, n)] = n%4 > 0 // each fourth is revoked again
		}
		f := New([]string{path, link}[w%2])
		wg.Go(func() {
			for n := range each {
				k := entryOf("acme", fmt.Sprintf("k%d-%d", w, n))
				if err := f.Add(k); err != nil {
					t.Error(err)
				}
				if n%4 > 0 {
					continue
				}
				if _, err := f.Revoke(k.Hash, madeAt); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := testkit.Must(New(path).List())(t)
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
	testkit.OK(t, os.MkdirAll(filepath.Join(dir, "volume", "deep"), 0o755))
	testkit.OK(t, os.Symlink("volume/deep", filepath.Join(dir, "d")))
	testkit.OK(t, os.Symlink("d/one.yaml", filepath.Join(dir, "k.yaml")))
	testkit.OK(t, os.Symlink("../real.yaml", filepath.Join(dir, "volume", "deep", "one.yaml")))
	f := New(filepath.Join(dir, "k.yaml"))
	real := filepath.Join(dir, "volume", "real.yaml")
	testkit.OK(t, f.Add(entryOf("acme", "a")))
	testkit.OK(t, os.Chmod(real, 0o664))
	testkit.OK(t, f.Add(entryOf("acme", "b")))
	if got, err := New(real).List(); err != nil || len(got.Keys) != 2 {
		t.Errorf("behind the links: %v, %v", got, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o664 {
		t.Errorf("permissions: %v, %v", info, err)
	}
	testkit.OK(t, os.Symlink("loop.yaml", filepath.Join(dir, "loop.yaml")))
	if err := New(filepath.Join(dir, "loop.yaml")).Add(entryOf("acme", "a")); err == nil || !strings.Contains(err.Error(), "links") {
		t.Errorf("in a loop: %v", err)
	}
}

// TestKeyFile_Full: a file that could not be read again is not written.
func TestKeyFile_Full(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	testkit.OK(t, os.WriteFile(path, []byte("keys: []\n"), 0o600))
	if err := replaceFile(path, make([]byte, strictyaml.MaxBytes+1)); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if got, err := New(path).List(); err != nil || len(got.Keys) != 0 {
		t.Errorf("the file holds %v, %v", got, err)
	}
}

func checkEach(t *testing.T, err error) {
	t.Helper()
	problems, ok := errors.AsType[strictyaml.Problems](err)
	if !ok {
		t.Fatalf("got %v; want problems", err)
	}
	for i, p := range problems {
		if p.File == "" || p.What == "" || p.Line < 1 || p.Col < 1 {
			t.Errorf("problem without a place: %+v", p)
		}
		if i > 0 && p.Line < problems[i-1].Line {
			t.Errorf("not sorted:\n%v", problems)
		}
	}
}

// FuzzKeyFile: any text is understood in full or not at all, and what is understood is written so that it is again.
func FuzzKeyFile(f *testing.F) {
	f.Add(string(Encode(Content{Keys: []Entry{entryOf("a", "n")}, Revoked: []Revoked{{HashKey("x"), madeAt}}})))
	damaged, _ := filepath.Glob("../testdata/keyfile/*.txt")
	for _, name := range damaged {
		data := testkit.Must(os.ReadFile(name))(f)
		_, text, _ := strings.Cut(string(data), "-- llmgov.keys.yaml --\n")
		text, _, _ = strings.Cut(text, "-- ")
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := strictyaml.NewReport()
		first := Parse(r, "keys.yaml", []byte(text))
		if err := r.Err(); err != nil {
			checkEach(t, err)
			return
		}
		written := Encode(first)
		again := Parse(r, "keys.yaml", written)
		if err := r.Err(); err != nil || string(Encode(again)) != string(written) {
			t.Fatalf("%v\n%s\nread again as\n%s", err, written, Encode(again))
		}
	})
}

// TestAudit_L7_WeakKeys: what can be found from its hash by trying is told from what cannot.
func TestAudit_L7_WeakKeys(t *testing.T) {
	for _, weak := range []string{"", "a", "sk-1234", "correct horse", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "passwordpassword1234", "12121212121212121212121212"} {
		err := CheckStrength(weak)
		if err == nil || !strings.Contains(err.Error(), "make one with llmgov keys new") {
			t.Errorf("%q: %v", weak, err)
		}
		if weak != "" && weak != "a" && strings.Contains(err.Error(), weak) {
			t.Errorf("shows the key: %v", err)
		}
	}
	for range 1000 {
		testkit.OK(t, CheckStrength(NewKey("a")))
	}
	for _, good := range []string{"3f2504e0-4f89-11d3-9a0c-0305e82c3301", "9e107d9d372bb6826bd81d3542a419d6", "sk-V4yX0b7MZkq2LrT9aaYw1g"} {
		if err := CheckStrength(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
