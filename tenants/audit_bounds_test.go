package tenants

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
	"go.yaml.in/yaml/v3"
)

// hostile are policies that somebody could put beside the others to make gateways die or hang.
var hostile = []struct {
	name, want string
	files      func(write func(name, text string))
}{
	{name: "3000 teams in each other", want: `team "t" is one level too deep; teams may stand in each other 16 deep`, files: func(write func(name, text string)) {
		write("a", "tenants: {r: {keys: [], teams: "+strings.Repeat("{t: {keys: [], teams: ", 3000)+
			"{"+many(8000, ", ", "l%d: {keys: []}")+"}"+strings.Repeat("}}", 3000)+"}}\n")
	}},
	{name: "long paths", want: "longer than 512 bytes with those of its parents", files: func(write func(name, text string)) {
		write("a", "tenants: {r: {keys: [], teams: "+strings.Repeat("{"+strings.Repeat("t", 100)+": {keys: [], teams: ", 8)+
			"{"+many(8000, ", ", "l%d: {keys: []}")+"}"+strings.Repeat("}}", 8)+"}}\n")
	}},
	{name: "many tenants", want: "there are more than the 20000 tenants and teams that a policy file may have; split it", files: func(write func(name, text string)) {
		write("a", "tenants: {"+many(20_001, ", ", "a%d: {keys: []}")+"}\n")
	}},
	{name: "many tiers", want: "there are more than 200 tiers", files: func(write func(name, text string)) {
		write("a", "tiers: {"+many(20_000, ", ", "a%d: {}")+"}\n")
	}},
	{name: "many keys", want: "tenants.a.keys: has 251 entries, more than the 250 that are supported", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: ["+many(251, ", ", "sha256:%064x")+"]}}\n")
	}},
	{name: "patterns that cross", want: "tenants.a.teams.b.models: these patterns have more than 250 in common with those of the parents", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: [], models: ["+many(200, ", ", "a%d*")+"], teams: {b: {keys: [], models: ["+many(200, ", ", `"*b%d"`)+"]}}}}\n")
	}},
	{name: "many pairs of patterns", want: "make more than 10000000 pairs", files: func(write func(name, text string)) {
		list := many(240, ", ", "a%d*")
		write("a", "tenants: {a: {keys: [], models: ["+list+"], teams: {"+many(180, ", ", "b%d: {keys: [], models: ["+strings.ReplaceAll(list, "%", "%%")+"]}")+"}}}\n")
	}},
	{name: "many values", want: "file holds more than the 400000 lines and values that a policy file may have; split it", files: func(write func(name, text string)) {
		write("a", "tenants: {a: {keys: [], models: ["+strings.Repeat("a,", 400_000)+"]}}\n")
	}},
	{name: "many bytes", want: "larger than the 4 MiB that a policy file may have; split it", files: func(write func(name, text string)) {
		write("a", "#"+strings.Repeat("x", 4<<20)+"\ntenants: {t: {keys: []}}\n")
	}},
	{name: "many files", want: "there are 10001 policy files, more than the 10000", files: func(write func(name, text string)) {
		for i := range 10_001 {
			write(fmt.Sprint("f", i), fmt.Sprintf("tenants: {t%d: {keys: []}}\n", i))
		}
	}},
	{name: "many mistakes", want: "these are the first 1000 problems; fix them to see more", files: func(write func(name, text string)) {
		write("a", "tenants: {"+many(3000, ", ", "t%d: {tier: nowhere-at-all, keys: []}")+"}\ntiers: {"+many(50, ", ", "somewhere-else-%d: {}")+"}\n")
	}},
}

// many writes format n times, with the number in it.
func many(n int, sep, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, sep)
}

// TestAudit_M8_HostilePoliciesStaySmall: what is far too much is refused with a clear message, at its place, before it
// takes much memory.
func TestAudit_M8_HostilePoliciesStaySmall(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			fsys := files(map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "[gpt-4o]", `["*"]`, 1)})
			c.files(func(name, text string) {
				fsys["tenants/"+name+".yaml"] = &fstest.MapFile{Data: []byte(text)}
			})
			before := allocated()
			_, err := LoadFS(fsys, "llmgov.yaml", Options{})
			used := allocated() - before
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %.300v, want %s", err, c.want)
			}
			if !strings.Contains(err.Error(), ".yaml:1:") {
				t.Errorf("without a place: %.300v", err)
			}
			if used > 512<<20 {
				t.Errorf("%d MiB were allocated on the way", used>>20)
			}
		})
	}
}

// allocated is how much memory was ever asked for: unlike what is in use, it does not depend on when it is collected.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestAudit_M8_ReloadCountsFilesThatAreRemembered: tenants of files that are not read again count as much as those that are.
func TestAudit_M8_ReloadCountsFilesThatAreRemembered(t *testing.T) {
	fsys := files(map[string]string{"llmgov.yaml": goodConfig + "max_tenants: 3\n", "tenants/a.yaml": "tenants: {" + many(3, ", ", "a%d: {keys: []}") + "}\n"})
	l := &loader{fsys: fsys, config: "llmgov.yaml", shown: "llmgov.yaml"}
	testkit.Must(load(l))(t)
	fsys["tenants/b.yaml"] = &fstest.MapFile{Data: []byte("tenants: {b: {keys: []}}\n")}
	if _, err := load(l); err == nil || !strings.Contains(err.Error(), "tenants/b.yaml:1:11: there are more than 3 tenants and teams") {
		t.Errorf("got %.300v", err)
	}
}

// TestAudit_M8_BuildHasTheSameDepth: what is made in code is held to the depth of files.
func TestAudit_M8_BuildHasTheSameDepth(t *testing.T) {
	var list []Tenant
	for depth := range maxTeamDepth + 2 {
		list = append(list, Tenant{Name: "t" + strings.Repeat("/t", depth), Keys: []Key{{Hash: HashKey(fmt.Sprint(depth))}}})
	}
	if _, err := Build(configOf([]string{"m"}), list[:maxTeamDepth+1]); err != nil {
		t.Errorf("16 deep: %v", err)
	}
	if _, err := Build(configOf([]string{"m"}), list); err == nil || !strings.Contains(err.Error(), "one level too deep") {
		t.Errorf("17 deep: %v", err)
	}
}

// TestAudit_H4_PolicyFilesHaveNoVariables: whoever may edit one policy file learns nothing of the environment, neither
// from the gateway nor from what check prints, and is told where to change what.
func TestAudit_H4_PolicyFilesHaveNoVariables(t *testing.T) {
	for _, policy := range []string{
		`tenants: {evil: {keys: [{hash: "sha256:%s", name: "${SECRET}"}]}}`,
		`tenants: {evil: {keys: ["sha256:%s"], models: ["gpt-${SECRET}"]}}`,
		`tenants: {evil: {keys: ["sha256:%s"], tier: "${SECRET}"}}`,
		`tenants: {evil: {keys: ["sha256:%s"], rpm: "${SECRET}"}}`,
		`tenants: {evil: {keys: ["sha256:%s"], max_wait: "${SECRET:-5s}"}}`,
		`tenants: {"${SECRET}": {keys: ["sha256:%s"]}}`,
		`{tiers: {"${SECRET}": {}}, tenants: {evil: {keys: ["sha256:%s"]}}}`,
	} {
		policy = fmt.Sprintf(policy, strings.Repeat("1", 64))
		for _, secret := range []string{"sk-provider", "60", "7s", ""} {
			_, err := loadSections(map[string]string{"tenants/a.yaml": policy, "env": "SECRET=" + secret})
			if err == nil {
				t.Errorf("%s passes", policy)
				continue
			}
			said := err.Error()
			if !regexp.MustCompile(`tenants/a\.yaml:1:\d+: .*(variables are expanded only in the config file; write the value|variables are not expanded in names; write the name) itself`).MatchString(said) {
				t.Errorf("%s: got %s", policy, said)
			}
			if secret == "sk-provider" && strings.Contains(said, secret) {
				t.Errorf("%s shows the secret: %s", policy, said)
			}
		}
	}
}

// TestAudit_H4_KeyFilesHaveNoVariables: a key file says the same whoever reads it, and llmgov writes none that it could
// not read again.
func TestAudit_H4_KeyFilesHaveNoVariables(t *testing.T) {
	entry := `keys: [{id: key_1111111111111111, tenant: acme, hash: "sha256:%s", name: "${SECRET:-x}", created: "2026-01-01T00:00:00Z"}]`
	_, err := loadSections(map[string]string{"llmgov.keys.yaml": fmt.Sprintf(entry, strings.Repeat("1", 64)), "env": "SECRET=sk-provider"})
	if err == nil || !strings.Contains(err.Error(), `llmgov.keys.yaml:1:`) || strings.Contains(err.Error(), "sk-provider") {
		t.Errorf("got %v", err)
	}
	if err := keyfile.CheckName("a${B}"); err == nil {
		t.Error("a name with a variable in it would be written")
	}
	name := "a$b$$c"
	r := strictyaml.NewReport()
	k := runtimeKey("acme", "k")
	k.Name = name
	if got := keyfile.Parse(r, "f", keyfile.Encode(keyfile.Content{Keys: []keyfile.Entry{k}})); r.Err() != nil || got.Keys[0].Name != name {
		t.Errorf("%q became %+v, %v", name, got, r.Err())
	}
}

// TestAudit_H4_MessagesShowTheTextAsWritten puts a variable in the place of each value of a config, one after the other,
// and finds what it holds in no message.
func TestAudit_H4_MessagesShowTheTextAsWritten(t *testing.T) {
	var root yaml.Node
	testkit.OK(t, yaml.Unmarshal([]byte(fullConfig), &root))
	said := 0
	for i, n := range scalars(&root, false) {
		before := *n
		*n = yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: "${SECRET}"}
		text := testkit.Must(yaml.Marshal(&root))(t)
		for j, secret := range []string{
			"sk-provider", "98765", "-98765", "10.98.76.5:9090", "redis:pw98765@h", "u:pw98765@h", "https://u:98765@h", "gpt-98765",
			"98765.tenants/*.yaml", "[98765", "9876543210987654321098765", "",
		} {
			if (i+j)%testkit.Rounds(4, 1) != 0 {
				continue
			}
			_, err := LoadFS(files(map[string]string{
				"llmgov.yaml": string(text), "policies/a.yaml": fullPolicy, "common/base.yaml": "tiers: {base: {}}",
			}), "llmgov.yaml", Options{Env: []string{"TPM=300000", "OPENAI_API_KEY=sk-o", "SECRET=" + secret}})
			if err == nil || secret == "" {
				continue
			}
			said++
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "98765") {
				t.Errorf("%q in the place of %q shows it: %v", secret, before.Value, err)
			}
		}
		*n = before
	}
	if said < 100 {
		t.Errorf("only %d were refused", said)
	}
}

// scalars are the values below n, without the keys of mappings.
func scalars(n *yaml.Node, key bool) []*yaml.Node {
	if n.Kind == yaml.ScalarNode && !key {
		return []*yaml.Node{n}
	}
	var all []*yaml.Node
	for i, c := range n.Content {
		all = append(all, scalars(c, n.Kind == yaml.MappingNode && i%2 == 0)...)
	}
	return all
}

// TestAudit_H4_NoDocumentTellsPoliciesToUseVariables: files that are handed out as examples load.
func TestAudit_H4_NoDocumentTellsPoliciesToUseVariables(t *testing.T) {
	for _, glob := range []string{"../docs/deploy/config/tenants/*.yaml", "../presets/tiers/*.yaml"} {
		files, _ := filepath.Glob(glob)
		if len(files) == 0 {
			t.Errorf("%s matches nothing", glob)
		}
		for _, file := range files {
			if _, _, err := Alone([]string{file}, Options{}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// TestAudit_L15_SecretsThatOthersMayRead: a secret written out in a file that others may read is told of, and one from a
// variable, or in a file of its owner's, is not. So are keys that leave the machine in clear.
func TestAudit_L15_SecretsThatOthersMayRead(t *testing.T) {
	const plain = `upstreams: {o: {base_url: "https://o/v1", api_key: "sk-written-out"}}
pools: {m: {models: [m], tpm: 1}}
admin: {token: "a-token-that-is-written-out"}
store: redis://u:pw-written-out@h
`
	variables := strings.NewReplacer("sk-written-out", "${K}", "a-token-that-is-written-out", "${T}", "redis://u:pw-written-out@h", `"redis://u:${P}@h"`).Replace(plain)
	clear := func(url string) string { return strings.Replace(variables, "https://o/v1", url, 1) }
	for _, c := range []struct {
		name, config string
		mode         fs.FileMode
		want         string
	}{
		{name: "others may read it", config: plain, mode: 0o644, want: "llmgov.yaml: other users of this machine may read admin.token, store, upstreams.o.api_key; write ${NAME} instead, or run chmod o-r llmgov.yaml"},
		{name: "others may read addresses of Slack", config: variables + `notify: [{webhook: "https://hooks.slack.com/a", format: slack}, {webhook: "https://pager/b", secret: written-out}, {webhook: "https://pager/c"}]
`, mode: 0o644, want: "llmgov.yaml: other users of this machine may read notify[0].webhook, notify[1].secret; write ${NAME} instead, or run chmod o-r llmgov.yaml"},
		{name: "the group may read it", config: plain, mode: 0o640},
		{name: "variables", config: variables, mode: 0o644},
		{name: "http to elsewhere", config: clear("http://vllm:8000/v1"), mode: 0o644, want: "upstream o: its api_key is sent in clear to vllm:8000; use https, unless the network is yours alone"},
		{name: "HTTP to elsewhere", config: clear("HTTP://10.0.0.7/v1"), mode: 0o600, want: "upstream o: its api_key is sent in clear to 10.0.0.7; use https, unless the network is yours alone"},
		{name: "http to loopback", config: clear("http://127.0.0.1:8000/v1")},
		{name: "http to localhost", config: clear("http://localhost:8000/v1")},
		{name: "empty variables", config: strings.NewReplacer("${K}", "${EMPTY}", "${T}", "${EMPTY}").Replace(variables), mode: 0o644, want: "admin.token: ${EMPTY} is empty, so whoever can log in to this machine may operate the gateway; " +
			"and upstreams.o.api_key: ${EMPTY} is empty, so calls go there without a key"},
		{name: "empty unless set", config: strings.NewReplacer("${K}", "${EMPTY:-}", "${T}", "${NONE:-}").Replace(variables), mode: 0o644},
		{name: "http without a key", config: strings.Replace(clear("http://vllm/v1"), "${K}", "", 1)},
	} {
		fsys := fstest.MapFS{
			"llmgov.yaml":    &fstest.MapFile{Data: []byte(c.config), Mode: c.mode},
			"tenants/a.yaml": &fstest.MapFile{Data: []byte(goodPolicy), Mode: 0o644},
		}
		s, err := LoadFS(fsys, "llmgov.yaml", Options{Env: []string{"K=sk-k", "T=a-token-of-enough-characters", "P=pw", "EMPTY="}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if runtime.GOOS == "windows" && c.mode == 0o644 {
			continue
		}
		if got := strings.Join(s.Cautions(), "; and "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
