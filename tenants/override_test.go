package tenants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
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
	if _, from := s.MemberOrigin(acme, "session:x", "tpm", end.Add(-1)); from != "override by ann until 2027-01-31T17:00:00Z (v)" {
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
	put := func(name, policy string) { set = []RuntimeTenant{{Tenant: name, Policy: []byte(policy), Firm: true}} }
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
		{"a/b", `{"keys":[]}`, `/api/v1/tenants/a%2Fb:1:13: name "a/b" holds a slash; write it without`},
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

// TestRuntimeTenants_SetAside: of tenants that were set at run time those alone are set aside that do not fit the files, wherever the fault is told, and
// the files are refused for faults of their own alone.
func TestRuntimeTenants_SetAside(t *testing.T) {
	hash := func(key string) string { return fmt.Sprintf("%q", HashKey(key)) }
	set := func(pairs ...string) (list []RuntimeTenant) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, RuntimeTenant{Tenant: pairs[i], Policy: []byte(pairs[i+1]), By: "ann"})
		}
		return list
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("m", i), `{"keys":[]}`)
	}
	fits := `{"tier":"pro","keys":[]}`
	files := "tiers: {pro: {rpm: 9}}\ntenants: {a: {keys: [" + hash("a") + "], teams: {x: {keys: []}}}, b: {keys: [" + hash("b") + "]}}\n"
	for name, c := range map[string]struct {
		files string
		set   []RuntimeTenant
		want  string // the tenants, whom of them files have, and who is set aside; or the error
	}{
		"none":                         {files, nil, "a a/x b"},
		"all fit":                      {files, set("r", fits), "a a/x b r"},
		"a tier is gone":               {files, set("q", `{"tier":"gold","keys":[]}`, "r", fits), `a a/x b r; q: /api/v1/tenants/q:1:25: tenants.q.tier: there is no tier "gold"; known are pro`},
		"several faults":               {files, set("q", `{"tier":"gold","rmp":1,"keys":[]}`, "r", fits), `a a/x b r; q: /api/v1/tenants/q:1:25: tenants.q.tier: there is no tier "gold"; known are pro (and 1 more)`},
		"in place of files'":           {files, set("a", `{"rmp":1,"keys":[]}`), `a a/x b; a: /api/v1/tenants/a:1:18: unknown key "rmp"; did you mean "rpm"?`},
		"told at the files":            {files, set("a0", `{"keys":[`+hash("b")+`]}`, "r", fits), "a a/x b r; a0: tenants/a.yaml:2:"},
		"told at the files, among 42":  {files, set(append([]string{"a0", `{"keys":[` + hash("b") + `]}`, "a1", `{"tier":"gold","keys":[]}`}, many...)...), "a a/x b m0 m1 m10 "},
		"two that do not fit together": {files, set("q", `{"keys":[`+hash("k")+`]}`, "r", `{"keys":[`+hash("k")+`]}`), "a a/x b q; r: /api/v1/tenants/r:1:"},
		"no policy":                    {files, set("q", "null", "r", fits), "a a/x b r; q: /api/v1/tenants/q:1:"},
		"the files are wrong":          {files + "teams: {}\n", set("a0", `{"keys":[`+hash("b")+`]}`, "r", `{"tier":"gold","keys":[]}`), `tenants/a.yaml:3:1: unknown key "teams"`},
		"must fit":                     {files, []RuntimeTenant{{Tenant: "q", Policy: []byte(`{"tier":"gold","keys":[]}`), Firm: true}, set("r", fits)[0]}, `/api/v1/tenants/q:1:25: tenants.q.tier: there is no tier "gold"; known are pro`},
		"another must fit":             {files, []RuntimeTenant{{Tenant: "q", Policy: []byte(fits), Firm: true}, set("r", `{"tier":"gold","keys":[]}`)[0]}, `a a/x b q; r: /api/v1/tenants/r:1:25: tenants.r.tier: there is no tier "gold"`},
	} {
		fsys := fstest.MapFS{"llmgov.yaml": {Data: []byte(goodConfig)}, "tenants/a.yaml": {Data: []byte(c.files)}}
		asked := 0
		s, err := LoadFS(fsys, "llmgov.yaml", Options{Runtime: func(*Config) []RuntimeTenant { asked++; return c.set }})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(s.names(), " ")
			for i, aside := range s.Aside() {
				got += "; " + aside.Tenant + ": " + aside.SetAside
				blocked := ""
				if aside.Tenant == "a" {
					blocked = ", and what the files have of its name is blocked"
				}
				if _, err := s.AskTenant(aside.Tenant + "/team"); !strings.Contains(err.Error(), "which ann has set at run time, is set aside"+blocked+", because it does not fit the files: "+aside.SetAside) || s.Unfit()[i] != err.Error() {
					t.Errorf("%s: asked for it: %v", name, err)
				}
			}
			weight := 2.0
			for _, t2 := range slices.Concat(s.Tenants(), s.WithOverrides([]Override{{Tenant: "a", Weight: &weight}}).Tenants()) {
				root := rootOf(t2.Name)
				if aside := slices.ContainsFunc(s.Aside(), func(aside RuntimeTenant) bool { return aside.Tenant == root }); aside != (t2.Blocked != nil) {
					t.Errorf("%s: what the files have as %s is blocked: %t", name, t2.Name, !aside)
				}
			}
			plain := testkit.Must(LoadFS(fsys, "llmgov.yaml", Options{}))(t)
			if same := s.Equal(plain); same != (len(c.set) == 0) {
				t.Errorf("%s: it is as without: %t", name, same)
			}
		}
		if !strings.HasPrefix(got, c.want) || name == "all fit" && got != c.want || asked > 1 {
			t.Errorf("%s: asked %d times for tenants, got\n%s, want\n%s", name, asked, got, c.want)
		}
		if strings.HasPrefix(name, "told at the files, among") && (len(s.Aside()) != 2 || !strings.Contains(got, "; a0: ") || len(s.Tenants()) != 43) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestOverrides_OfOneMember: a member by key or session has two names and one override, and what lies under an override holds again once that has ended, as long as it
// does so itself.
func TestOverrides_OfOneMember(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2027, 1, 31, hour, 0, 0, 0, time.UTC) }
	n := func(n int64) *int64 { return &n }
	until := func(hour int) *time.Time { end := at(hour); return &end }
	files := func(end time.Time) MemberLimits {
		m := MemberLimits{Weight: 1, Until: end}
		m.TPM = 50
		m.limit(terms.Requests, 0)
		return m
	}
	for name, c := range map[string]struct {
		by   string
		file *MemberLimits
		list []Override
		want string // rpm and tpm of ann at 1, 3, 5 and 7 o'clock, with what blocks it; each has rpm 9
	}{
		"none":                       {ByKey, nil, nil, "9/0 9/0 9/0 9/0"},
		"by its name":                {ByKey, nil, []Override{{Tenant: "acme/~ann", RPM: n(1), Until: until(4)}}, "1/0 1/0 9/0 9/0"},
		"as it counts":               {ByKey, nil, []Override{{Tenant: "acme/~key:ann", RPM: n(1)}}, "1/0 1/0 1/0 1/0"},
		"the later of both":          {ByKey, nil, []Override{{Tenant: "acme/~key:ann", RPM: n(1)}, {Tenant: "acme/~ann", RPM: n(2)}}, "2/0 2/0 2/0 2/0"},
		"the later, as it counts":    {BySession, nil, []Override{{Tenant: "acme/~ann", RPM: n(2)}, {Tenant: "acme/~session:ann", RPM: n(1)}}, "1/0 1/0 1/0 1/0"},
		"of another":                 {ByUser, nil, []Override{{Tenant: "acme/~key:ann", RPM: n(1)}}, "9/0 9/0 9/0 9/0"},
		"over the files'":            {ByUser, new(files(time.Time{})), []Override{{Tenant: "acme/~ann", TPM: n(70), Until: until(4)}}, "0/70rpm 0/70rpm 0/50rpm 0/50rpm"},
		"files' for a time":          {ByUser, new(files(at(4))), nil, "0/50rpm 0/50rpm 9/0 9/0"},
		"which ends first":           {ByUser, new(files(at(4))), []Override{{Tenant: "acme/~ann", TPM: n(70), Until: until(6)}}, "0/70rpm 0/70rpm 9/70 9/0"},
		"which ends first, for good": {ByUser, new(files(at(4))), []Override{{Tenant: "acme/~ann", TPM: n(70)}}, "0/70rpm 0/70rpm 9/70 9/70"},
		"which ends later":           {ByUser, new(files(at(6))), []Override{{Tenant: "acme/~ann", TPM: n(70), RPM: n(3), Until: until(2)}}, "3/70 0/50rpm 0/50rpm 9/0"},
		"which has ended":            {ByUser, new(files(at(0))), []Override{{Tenant: "acme/~ann", TPM: n(70), Until: until(4)}}, "9/70 9/70 9/0 9/0"},
	} {
		m := &Members{By: MemberBy{Source: c.by}, Each: MemberLimits{Weight: 1}}
		m.Each.RPM = 9
		if c.file != nil {
			m.Override = map[string]MemberLimits{"ann": *c.file}
		}
		s := mustBuild(t, configOf([]string{"m"}), Tenant{Name: "acme", Members: m, Keys: []Key{{Hash: HashKey("k")}}}).WithOverrides(c.list)
		acme, _ := s.TenantByName("acme")
		got := ""
		for hour := 1; hour < 8; hour += 2 {
			l := acme.Members.Of("ann", at(hour))
			got += fmt.Sprintf(" %d/%d%s", l.RPM, l.TPM, l.Blocked)
		}
		if got[1:] != c.want {
			t.Errorf("%s: ann has%s, want %s", name, got, c.want)
		}
		_, from := s.MemberOrigin(acme, acme.Members.Named("ann"), "rpm", at(1))
		if laid := len(c.list) > 0 && c.by != ByUser; laid && !strings.HasPrefix(from, "override by ") || len(s.Overrides()) > 1 {
			t.Errorf("%s: by the name under which ann counts, rpm is from %q, of %d overrides", name, from, len(s.Overrides()))
		}
	}
	s := mustBuild(t, configOf([]string{"m"}), Tenant{Name: "acme", Members: &Members{By: MemberBy{Source: ByKey}, Each: MemberLimits{Weight: 1}}, Keys: []Key{{Hash: HashKey("k")}}}, tenant("bob", "kb"))
	for name, want := range map[string]string{
		"acme": "acme", "acme/~ann": "acme/~key:ann", "acme/~key:ann": "acme/~key:ann", "acme/~key:key:ann": "acme/~key:key:ann", "acme/~sub:x": "acme/~key:sub:x",
		"acme/~": "acme/~", "bob/~ann": "bob/~ann", "none/~ann": "none/~ann",
	} {
		if got := s.Canonical(name); got != want || s.Canonical(got) != got {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
