package tenants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
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

// TestOverrides_More: an override replaces weight, budgets, limits in one pool, and all that for a member, and leaves the files' policy alone.
func TestOverrides_More(t *testing.T) {
	weight, n, none := 2.5, int64(7), int64(0)
	end := time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC)
	m := &Members{By: MemberBy{Source: BySession}, Each: MemberLimits{Weight: 1, Budgets: []Budget{{Unit: Tokens, Limit: 5, Per: Day, Background: true, WarnAt: [4]int64{50}}}}}
	plain := mustBuild(t, configOf([]string{"m"}), Tenant{Name: "acme", Members: m, Keys: []Key{{Hash: HashKey("k")}}}, tenant("bob", "kb"))
	before := string(encode(plain.tenants))
	pool := plain.Pools()[0].Name
	s := plain.WithOverrides([]Override{
		{Tenant: "bob", Weight: &weight, Budgets: []string{"20 tokens per month, then background", "9 requests per life"}, Pools: []string{"rpm 3 in " + pool, "rpm 4 in gone", "burst 5 in " + pool}, Why: "w", By: "ann"},
		{Tenant: "acme/~session:x", TPM: &n, RPM: &none, Budgets: []string{"6 tokens per life"}, Until: &end, Why: "v", By: "ann"},
		{Tenant: "acme/~session:z", Budgets: []string{"6 tokens per day"}, Why: "v", By: "ann"},
		{Tenant: "acme/~session:later", Budgets: []string{"6 tokens per decade"}, Why: "v", By: "ann"},
		{Tenant: "bob/~ann", TPM: &n},
	})
	bob, _ := s.TenantByName("bob")
	if got := fmt.Sprint(bob.Weight, bob.Budgets, bob.LimitsIn(&s.Pools()[0]).RPM, len(bob.Pools)); got != "2.5 [{tokens 20 month [0 0 0 0] true} {requests 9 life [0 0 0 0] false}] 3 1" {
		t.Errorf("bob has %s", got)
	}
	for key, want := range map[string]string{"weight": "override by ann (w)", "max_wait": ""} {
		if got := s.Origin(bob, key); got != want {
			t.Errorf("bob's %s is from %q, want %q", key, got, want)
		}
	}
	from := ""
	for _, l := range s.Limits(bob, &s.Pools()[0]) {
		if strings.HasPrefix(l.Key, "budgets") || strings.HasSuffix(l.Key, "rpm") {
			from += l.Key + " " + l.From + ", "
		}
	}
	if from != "pools."+pool+".rpm override by ann (w), budgets[0] override by ann (w), budgets[1] override by ann (w), " {
		t.Errorf("bob's limits are from %s", from)
	}
	acme, _ := s.TenantByName("acme")
	x := acme.Members.Of("x", end.Add(-1))
	if x.TPM != 7 || x.Blocked != "rpm" || x.Budgets[0].Limit != 6 || x.Budgets[0].Per != Life || acme.Members.Of("y", end).Budgets[0].Limit != 5 || acme.Members.Of("x", end).TPM != 0 {
		t.Errorf("the member has %+v", x)
	}
	if got := fmt.Sprint(acme.Members.Of("z", end).Budgets, acme.Members.Of("later", end).Budgets); got != "[{tokens 6 day [50 0 0 0] true}] [{tokens 5 day [50 0 0 0] true}]" {
		t.Errorf("members have the budgets %s", got)
	}
	if text := s.CheckOverride(&Override{Tenant: "bob", Budgets: []string{"1 usd per day"}}); !strings.Contains(text, "needs prices") {
		t.Errorf("beside an override in usd: %q", text)
	}
	if _, from := s.MemberOrigin(acme, "session:x", "tpm"); from != "override by ann until 2027-01-31T17:00:00Z (v)" {
		t.Errorf("the member's limit is from %s", from)
	}
	if string(encode(plain.tenants)) != before || string(encode(s.WithOverrides(nil).tenants)) != before {
		t.Error("the policy of the files is another one")
	}
}

// TestOverrides_Unfit: what of an override does not fit the files any more does nothing and is told, and the rest is in force. A budget that replaces one
// warns as that does, and refuses no more than it. What is laid is no reason to lay more.
func TestOverrides_Unfit(t *testing.T) {
	n, none := int64(7), int64(0)
	soft := []Budget{{Unit: MicroUSD, Limit: 5, Per: Month, WarnAt: [4]int64{50}, Background: true}}
	header := &Members{By: MemberBy{ByHeader, "X-User"}, Each: MemberLimits{Weight: 1}}
	cfg := configOf([]string{"m"})
	cfg.Prices = []ModelPrice{{Model: "m"}}
	plain := mustBuild(t, cfg, tenant("acme", "k"), Tenant{Name: "bob", Budgets: soft, Members: header, Keys: []Key{{Hash: HashKey("kb")}}})
	pool := plain.Pools()[0].Name
	gone := []string{"tpm 5 in gone"}
	for name, c := range map[string]struct {
		o           Override
		want, unfit string
	}{
		"pool":             {Override{Tenant: "acme", RPM: &none, Pools: append(gone, "rpm 3 in "+pool)}, "[] [{A {3 0 0 0 0 []}}] true", "override of acme: left out: There is no pool \"gone\" that tenant acme may use."},
		"only a pool":      {Override{Tenant: "acme", Pools: gone}, "[] [] false", "override of acme: left out: There is no pool \"gone\" that tenant acme may use."},
		"usd":              {Override{Tenant: "acme", Budgets: []string{"5 usd per month"}}, "[] [] false", "override of acme: left out: A budget in usd needs"},
		"budget":           {Override{Tenant: "bob", Budgets: []string{"5 apples per month"}}, "[{usd 5 month [50 0 0 0] true}] [] false", "override of bob: left out: \"5 apples per month\" is no budget"},
		"soft":             {Override{Tenant: "bob", Budgets: []string{"8 usd per month"}}, "[{usd 8000000 month [50 0 0 0] true}] [] false", ""},
		"soft, as printed": {Override{Tenant: "bob", Budgets: []string{"8 tokens per day, then background"}}, "[{tokens 8 day [0 0 0 0] true}] [] false", ""},
	} {
		s := plain.WithOverrides([]Override{c.o})
		got, _ := s.TenantByName(c.o.Tenant)
		if text := fmt.Sprint(got.Budgets, got.Pools, got.Blocked != nil); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		if text := strings.Join(s.Unfit(), "\n"); !strings.HasPrefix(text, c.unfit) || c.unfit == "" && text != "" {
			t.Errorf("%s: unfit is %q, want %q", name, text, c.unfit)
		}
	}
	laid := plain.WithOverrides([]Override{{Tenant: "bob", Budgets: []string{"8 tokens per day"}}, {Tenant: "bob/~header:x", TPM: &n}})
	if complaint := laid.CheckOverride(&Override{Tenant: "bob", Budgets: []string{"9 usd per month"}}); complaint != "" {
		t.Errorf("checked against another override: %s", complaint)
	}
	if complaint := laid.CheckOverride(&Override{Tenant: "bob", RPM: &n, Budgets: []string{}}); complaint == "" {
		t.Error("no budgets are taken, and replace none")
	}
	bob, _ := laid.TenantByName("bob")
	if bob.Members.Of("x", time.Time{}).TPM != 0 || bob.Members.Of("header:x", time.Time{}).TPM != 7 {
		t.Error("an override of one member is another's")
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

// TestRuntimeTenants: a tenant that was set at run time stands in place of the files' with its teams, is read by the files' tiers, and what is wrong with it is at its address.
func TestRuntimeTenants(t *testing.T) {
	hash := func(key string) string { return fmt.Sprintf("%q", HashKey(key)) }
	var set []RuntimeTenant
	put := func(name, policy string) { set = []RuntimeTenant{{Tenant: name, Policy: []byte(policy)}} }
	fsys := fstest.MapFS{
		"llmgov.yaml":    {Data: []byte(goodConfig)},
		"tenants/a.yaml": {Data: []byte("tiers: {pro: {rpm: 9}}\ntenants: {a: {keys: [" + hash("a") + "], teams: {x: {keys: []}}}, b: {keys: [" + hash("b") + "]}}\n")},
	}
	opt := Options{Runtime: func(*Config) []RuntimeTenant { return set }}
	l := &loader{fsys: fsys, config: "llmgov.yaml", shown: "llmgov.yaml", opt: opt, more: map[string]string{}}
	state := func() string {
		s, err := load(l)
		if err != nil {
			return err.Error()
		}
		text := ""
		for _, one := range s.Tenants() {
			text += fmt.Sprintf("%s %d %s, ", one.Name, one.RPM, one.Source)
		}
		t2, _ := s.TenantByName("a")
		return text + s.Origin(t2, "rpm")
	}
	files := state()
	looked := l.look(l.globs)
	for _, c := range []struct{ name, policy, want string }{
		{"a", `{"tier":"pro","keys":[` + hash("a") + `],"teams":{"y":{"keys":[]}}}`, "a 9 /api/v1/tenants/a:1:13, a/y 0 /api/v1/tenants/a:1:"},
		{"c", `{"keys":[` + hash("c") + `]}`, "a 0 tenants/a.yaml:2:11, a/x 0 tenants/a.yaml:2:"},
		{"a", `{"rmp":3,"keys":[]}`, `/api/v1/tenants/a:1:18: unknown key "rmp"; did you mean "rpm"?`},
		{"a", `{"tier":"gold","keys":[]}`, `/api/v1/tenants/a:1:25: tenants.a.tier: there is no tier "gold"; known are pro`},
		{"c", `{"keys":[` + hash("b") + `]}`, `/api/v1/tenants/c:1:26:`},
		{"a/b", `{"keys":[]}`, `/api/v1/tenants/a/b:1:13: name "a/b" holds a slash; write it without`},
	} {
		put(c.name, c.policy)
		if l.look(l.globs) == looked {
			t.Errorf("%s: whoever looks for changes sees none", c.policy)
		}
		if got := state(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s:\n%s, want\n%s", c.name, c.policy, got, c.want)
		}
	}
	for name, want := range map[string]string{"a": "a a/z a/y b", "c": "a a/x b c c/z c/y"} {
		put(name, `{"keys":[`+hash("new")+`],"teams":{"z":{"keys":[]},"y":{"keys":[]}}}`)
		list := slices.Clone(testkit.Must(load(l))(t).Tenants())
		slices.SortFunc(list, func(a, b Tenant) int { return cmp.Compare(a.Order, b.Order) })
		got := ""
		for i := range list {
			got += " " + list[i].Name
		}
		if got != " "+want {
			t.Errorf("with %s the order is%s, want %s", name, got, want)
		}
	}
	set = nil
	if got := state(); got != files || l.look(l.globs) != looked {
		t.Errorf("cleared: %s, want %s", got, files)
	}
}
