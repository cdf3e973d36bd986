package tenants

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/strictyaml"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

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
