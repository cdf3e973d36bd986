package tenants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong elsewhere hides nobody's gateway; what is wrong in admin is told.
func TestLoadAdmin(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         Admin
		wrong        string
	}{
		{name: "defaults", config: "pools: {}", want: DefaultConfig().Admin},
		{name: "all else is wrong", config: "admin: {listen: \"10.0.0.1:91\", token: \"${T}\"}\nupstreams: {a: {api_key: \"${NO}\"}}\nzzz: 1\n", want: Admin{Listen: "10.0.0.1:91", Token: "a-secret-of-this-gateway", UnreadyOnStoreLoss: UnreadyAlone}},
		{name: "the token's variable", config: "admin: {token: \"${NO}\"}", wrong: "NO is not set"},
		{name: "no mapping", config: "admin: 5", wrong: "admin: is a"},
		{name: "no yaml", config: "a: [", wrong: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "llmgov.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadAdmin(file, Options{Env: []string{"T=a-secret-of-this-gateway"}})
			if c.want != (Admin{}) {
				if err != nil || got != c.want {
					t.Errorf("%+v, %v; want %+v", got, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v; want one with %q", err, c.wrong)
			}
		})
	}
	if _, err := LoadAdmin(filepath.Join(t.TempDir(), "no.yaml"), Options{}); err == nil {
		t.Error("a config that is not there was read")
	}
}
