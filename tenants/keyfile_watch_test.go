package tenants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/tenants/internal/disk"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

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
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"llmgov.yaml": goodConfig, "gw.yml": goodConfig, "tenants/a.yaml": goodPolicy} {
		if err := os.WriteFile(filepath.Join(sub, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
		if err := file.Add(keyfile.Entry{Key: Key{Hash: HashKey("of-x")}, Tenant: "gone", Created: aTime}); err != nil {
			t.Fatal(err)
		}
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
		if err := os.Remove(file.Path()); err != nil {
			t.Fatal(err)
		}
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
