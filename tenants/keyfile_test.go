package tenants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/doctable"
	"github.com/llmgov/llmgov/tenants/internal/disk"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

var aTime = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// runtimeKey is a key that was made at run time, and that "of-"+name opens.
func runtimeKey(tenant, name string) keyfile.Entry {
	return keyfile.Entry{Key: Key{Hash: HashKey("of-" + name), Name: name}, Tenant: tenant, Created: aTime}
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
		if *doctable.Update {
			head, _, _ = strings.Cut(head, "-- want --\n")
			testkit.OK(t, os.WriteFile(file, []byte(head+"-- want --\n"+problems.Error()+"\n"), 0o644))
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
	f := keyfile.New(filepath.Join(t.TempDir(), "keys.yaml"))
	testkit.OK(t, os.WriteFile(f.Path(), []byte(text), 0o600))
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
		"etc/llmgov.keys.yaml": string(keyfile.Encode(keyfile.Content{
			Keys: []keyfile.Entry{runtimeKey("acme", "ci"), overlaid, runtimeKey("gone", "inert"), revoked},
			Revoked: []keyfile.Revoked{
				{Hash: revoked.Hash, At: aTime},
				{Hash: twice.Hash, At: aTime},
				{Hash: HashKey("of-nobody"), At: aTime},
			},
		})),
	})
	s := testkit.Must(LoadFS(fsys, "etc/llmgov.yaml", Options{}))(t)
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
	later := s.WithKeys(keyfile.Content{Keys: []keyfile.Entry{runtimeKey("bob", "late")}})
	if got, want := opens(later), "acme→acme bob→bob overlaid→bob twice→acme late→bob"; got != want {
		t.Errorf("with other keys these open: %s, want %s", got, want)
	}
	if s.Hash() != later.Hash() || s.Equal(later) || !s.WithKeys(s.runtime.Content).Equal(s) {
		t.Error("keys made at run time belong to what is equal, and not to the policy's hash")
	}
	if got := opens(s); !strings.Contains(got, "ci→acme") {
		t.Errorf("the first snapshot has changed: %s", got)
	}
}

// TestShares_Keys: who has a share is who has a key, wherever that is from.
func TestShares_Keys(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml":    goodConfig,
		"tenants/a.yaml": "tenants: {acme: {keys: []}, bob: {keys: [" + key1 + "]}}\n",
	}))(t)
	shares := func(s *Snapshot) string {
		var said []string
		for _, sh := range s.Shares(&s.Pools()[0]) {
			said = append(said, fmt.Sprintf("%s %.2f", sh.Tenant.Name, sh.Part))
		}
		return strings.Join(said, ", ") + fmt.Sprint(" ", len(s.Uncalled(&s.Pools()[0])))
	}
	revoked := []keyfile.Revoked{{Hash: s.Tenants()[1].Keys[0].Hash, At: aTime}}
	made := []keyfile.Entry{runtimeKey("acme", "late")}
	for _, c := range []struct {
		keys keyfile.Content
		want string
	}{
		{keyfile.Content{}, "bob 1.00 0"},
		{keyfile.Content{Keys: made}, "acme 0.50, bob 0.50 0"},
		{keyfile.Content{Keys: made, Revoked: revoked}, "acme 1.00 0"},
		{keyfile.Content{Revoked: revoked}, " " + fmt.Sprint(len(s.Pools()[0].Models))},
	} {
		if got := shares(s.WithKeys(c.keys)); got != c.want {
			t.Errorf("with %+v: %s, want %s", c.keys, got, c.want)
		}
	}
}

// TestWatch_Keys changes the key file from its first key on.
func TestWatch_Keys(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, nil)
		f := keyfile.New(s.path("llmgov.keys.yaml"))
		for n := range 3 {
			name := fmt.Sprint("k", n)
			s.must(f.Add(runtimeKey("acme", name)))
			if ev := s.next(); ev.Err != nil || !opens(ev.Snapshot, name) {
				t.Fatalf("key %d does not open: %v", n, ev.Err)
			}
		}
		_, err := f.Revoke(HashKey("of-k1"), aTime)
		s.must(err)
		if ev := s.next(); ev.Err != nil || opens(ev.Snapshot, "k1") || !opens(ev.Snapshot, "k2") {
			t.Fatalf("after k1 was revoked: %v", ev.Err)
		}
		s.same()
		s.remove("llmgov.keys.yaml")
		if ev := s.next(); ev.Err != nil || opens(ev.Snapshot, "k2") {
			t.Fatalf("after the file is gone: %v", ev.Err)
		}
	})
}

// TestWatch_KeysWhileBad: keys are made and revoked also while a policy file is bad, and nothing of that file counts.
func TestWatch_KeysWhileBad(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, func(s *site) { s.must(keyfile.New(s.path("llmgov.keys.yaml")).Add(runtimeKey("acme", "old"))) })
		f := keyfile.New(s.path("llmgov.keys.yaml"))
		s.write("tenants/a.yaml", "tenants: {acme: {rmp: 1}}\n")
		s.bad("rmp")
		s.must(f.Add(runtimeKey("acme", "new")))
		ev := s.next()
		if !saysBad(ev, "rmp") || !opens(ev.Snapshot, "new") || tenantsOf(ev.Snapshot) != "acme:1" {
			t.Fatalf("with a key more: %+v", ev)
		}
		_, err := f.Revoke(HashKey("of-old"), aTime)
		s.must(err)
		if ev := s.next(); !saysBad(ev, "rmp") || opens(ev.Snapshot, "old") || !opens(ev.Snapshot, "new") {
			t.Fatalf("with a key less: %+v", ev)
		}
		s.write("llmgov.yaml", "{{{")
		s.bad("YAML")
		s.must(f.Add(runtimeKey("acme", "late")))
		if ev := s.next(); !saysBad(ev, "YAML") || opens(ev.Snapshot, "old") || !opens(ev.Snapshot, "late") {
			t.Fatalf("with a key more, while the config is bad: %+v", ev)
		}
		s.write("llmgov.keys.yaml", "keys: [")
		s.bad("llmgov.keys.yaml")
		s.write("llmgov.yaml", goodConfig)
		s.bad("llmgov.keys.yaml")
		s.write("tenants/a.yaml", policyOf("acme", 2))
		s.bad("llmgov.keys.yaml")
		s.remove("llmgov.keys.yaml")
		s.wants("acme:2")
	})
}

// TestWatch_KeysNotTaken: what is wrong now does not hide the keys of an event that nobody took.
func TestWatch_KeysNotTaken(t *testing.T) {
	s := newSite(t, byLooking, nil)
	f := keyfile.New(s.path("llmgov.keys.yaml"))
	s.write("tenants/a.yaml", "tenants: 1\n") // first, because a look at the key alone would deliver it
	s.must(f.Add(runtimeKey("acme", "new")))
	for _, bad := range []string{"tenants: 1\n", "tenants: 2\n"} {
		s.write("tenants/a.yaml", bad)
		if snap, err := s.Reload(); err == nil || !opens(snap, "new") {
			t.Errorf("reload: %v, %v", snap, err)
		}
	}
	if ev := s.next(); !saysBad(ev, "single value") || !opens(ev.Snapshot, "new") {
		t.Errorf("first %+v", ev)
	}
	s.write("tenants/a.yaml", "tenants: 3\n")
	if snap, err := s.Reload(); err == nil || snap != nil {
		t.Errorf("nothing new of the keys: %v, %v", snap, err)
	}
}

func saysBad(ev Event, text string) bool {
	return ev.Err != nil && strings.Contains(ev.Err.Error(), text)
}

func opens(s *Snapshot, name string) bool {
	if s == nil {
		return false
	}
	_, _, ok := s.Lookup("of-" + name)
	return ok
}

// TestLoad_KeysFile checks where the key file is, and what it is called, for each way to say it.
func TestLoad_KeysFile(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	for _, d := range []string{filepath.Join(sub, "tenants"), filepath.Join(dir, "other")} {
		testkit.OK(t, os.MkdirAll(d, 0o755))
	}
	for name, text := range map[string]string{"llmgov.yaml": goodConfig, "gw.yml": goodConfig, "tenants/a.yaml": goodPolicy} {
		testkit.OK(t, os.WriteFile(filepath.Join(sub, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	for _, c := range []struct{ config, setting, want, shown string }{
		{"sub/llmgov.yaml", "", "sub/llmgov.keys.yaml", "sub/llmgov.keys.yaml"},
		{"sub/gw.yml", "", "sub/gw.keys.yaml", "sub/gw.keys.yaml"},
		{"sub/llmgov.yaml", "tenants/k.yaml", "sub/tenants/k.yaml", "sub/tenants/k.yaml"}, // which the glob matches
		{"sub/llmgov.yaml", "../other/k.yaml", "other/k.yaml", "other/k.yaml"},
		{"sub/llmgov.yaml", filepath.Join(dir, "other", "k.yaml"), "other/k.yaml", filepath.Join(dir, "other", "k.yaml")},
	} {
		file := keyfile.New(filepath.Join(dir, c.want))
		testkit.OK(t, file.Add(keyfile.Entry{Key: Key{Hash: HashKey("of-x")}, Tenant: "gone", Created: aTime}))
		s, err := Load(c.config, Options{Env: []string{"LLMGOV_KEYS_FILE=" + c.setting}})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got := s.KeyFile().Path(); got != file.Path() {
			t.Errorf("%+v: the file is %s", c, got)
		}
		want := c.shown + ": key " + HashKey("of-x").ID() + " is for tenant gone, which the policy does not have, so it opens nothing"
		if notes := s.KeyNotes(); len(notes) != 1 || notes[0] != want {
			t.Errorf("%+v: notes %q, want %q", c, notes, want)
		}
		testkit.OK(t, os.Remove(file.Path()))
	}
	if built := mustBuild(t, configOf([]string{"m"}), tenant("a", "ka")); built.KeyFile() != nil {
		t.Error("a snapshot made in code has a key file")
	}
}

// TestWatching_Rest: what a load takes, unlike a look, is not waited for twenty times over.
func TestWatching_Rest(t *testing.T) {
	s := newSite(t, byLooking, nil)
	var keys keyfile.Content
	for i := range 5000 {
		keys.Keys = append(keys.Keys, runtimeKey("acme", fmt.Sprint(i)))
	}
	l, err := newLoader(s.path("llmgov.yaml"), Options{})
	s.must(err)
	w := &watching{knobs: knobs{}, loader: l, dirs: disk.NewFolders(false)}
	w.load()
	s.must(os.WriteFile(s.path("llmgov.keys.yaml"), keyfile.Encode(keys), 0o600))
	w.step()
	began := time.Now()
	w.step() // which loads
	took := time.Since(began)
	if !opens(w.good, "4999") {
		t.Fatal("it was not loaded")
	}
	if rest := time.Until(w.rested); rest > 15*took {
		t.Errorf("it rests %v after a load of %v", rest, took)
	}
}
