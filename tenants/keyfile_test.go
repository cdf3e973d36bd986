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
	f := keyfile.New(filepath.Join(t.TempDir(), "keys.yaml"))
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
