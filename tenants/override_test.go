package tenants

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// TestOverrides: an override wins over the files, also beside keys made at run time, says where its limits are from, and leaves nothing behind.
func TestOverrides(t *testing.T) {
	plain := mustBuild(t, configOf([]string{"m"}), Tenant{Name: "acme"}, tenant("acme-2", "k2"), tenant("acme/a", "ka"), tenant("acme/a/b", "kb"), tenant("acme/c", "kc"))
	n, none := int64(500), int64(0)
	end := time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC)
	raise := Override{Tenant: "acme/a", TPM: &n, Until: &end, Why: "launch", By: "ann"}
	block := Override{Tenant: "acme", RPM: &none, Concurrency: &n, Why: "abuse", By: "bob"}
	nobody := Override{Tenant: "gone", TPM: &n}
	added := keyfile.Content{Keys: []keyfile.Entry{{Key: Key{Hash: HashKey("new")}, Tenant: "acme/a"}}}
	state := func(s *Snapshot) string {
		var b strings.Builder
		for _, list := range s.Tenants() {
			fmt.Fprintf(&b, "%s %d %d %d %v, ", list.Name, list.TPM, list.RPM, list.Concurrency, list.Blocked != nil)
		}
		owner, _, _ := s.Lookup("ka")
		made, _, _ := s.Lookup("new")
		return b.String() + fmt.Sprint(owner.Name, made != nil)
	}
	before := state(plain)
	const both = "acme 0 0 500 true, acme-2 0 0 0 false, acme/a 500 0 0 true, acme/a/b 0 0 0 true, acme/c 0 0 0 true, acme/a"
	one := plain.WithOverrides([]Override{raise, nobody, block})
	for name, c := range map[string]struct {
		s    *Snapshot
		want string
	}{
		"both":                {one, both + "false"},
		"keys after":          {one.WithKeys(added), both + "true"},
		"keys before":         {plain.WithKeys(added).WithOverrides([]Override{raise, block}), both + "true"},
		"fewer":               {one.WithKeys(added).WithOverrides([]Override{raise}), "acme 0 0 0 false, acme-2 0 0 0 false, acme/a 500 0 0 false, acme/a/b 0 0 0 false, acme/c 0 0 0 false, acme/atrue"},
		"none":                {one.WithOverrides(nil), before},
		"one that was before": {plain, before},
	} {
		if got := state(c.s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if c.s.Hash() != plain.Hash() {
			t.Errorf("%s: the files have another hash", name)
		}
	}
	if one.Equal(plain) || one.SamePolicy(plain) || !one.WithOverrides(nil).Equal(plain) || !one.WithKeys(added).SamePolicy(one) ||
		!plain.WithKeys(added).WithOverrides([]Override{raise}).Equal(plain.WithOverrides([]Override{raise}).WithKeys(added)) {
		t.Error("policies with and without overrides are told apart wrongly")
	}
	a, _ := one.TenantByName("acme/a")
	want := []string{"tpm 500 override by ann until 2027-01-31T17:00:00Z (launch) ", "concurrency 500 override by bob (abuse) acme", "blocked true override by bob (abuse) "}
	for _, l := range one.Limits(a, &one.Pools()[0]) {
		text := fmt.Sprint(l.Key, " ", l.Value, " ", l.From, " ", l.Of)
		if len(want) > 0 && text == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the limits of acme/a lack %q: %v", want, one.Limits(a, &one.Pools()[0]))
	}
}

// TestOverrides_Reload: files that change keep their overrides.
func TestOverrides_Reload(t *testing.T) {
	n := int64(7)
	list := []Override{{Tenant: "a", RPM: &n}}
	next := testkit.Must(loadSections(map[string]string{"tenants/a.yaml": "tenants: {a: {rpm: 3, tpm: 9, keys: [" + fmt.Sprintf("%q", HashKey("a")) + "]}}\n"}))(t).WithOverrides(list)
	if got := next.Tenants()[0]; got.RPM != 7 || got.TPM != 9 || next.Origin(&got, "rpm") == next.Origin(&got, "tpm") {
		t.Errorf("rpm %d from %s, tpm %d from %s", got.RPM, next.Origin(&got, "rpm"), got.TPM, next.Origin(&got, "tpm"))
	}
}
