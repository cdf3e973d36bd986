package instance_test

import (
	"strings"
	"testing"
	"testing/fstest"

	_ "github.com/llmgov/llmgov/federation/postgres"
	_ "github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/tenants"
)

// TestAudit_L6_PasswordsOfStoresAreNotShown: whatever is wrong with the address of a store, and wherever it is given, no
// message has the password.
func TestAudit_L6_PasswordsOfStoresAreNotShown(t *testing.T) {
	const config = "upstreams: {o: {base_url: \"https://o/v1\"}}\npools: {m: {models: [m], tpm: 1}}\n"
	const policy = "tenants: {a: {keys: [\"sha256:1111111111111111111111111111111111111111111111111111111111111111\"]}}\n"
	for _, address := range []string{
		"u:RAWpw123@h", "RAWpw123", "RAWpw123@h:6379", "redis:u:RAWpw123@h", "redis:/u:RAWpw123@h", "redis//u:RAWpw123@h",
		"redis;//u:RAWpw123@h", "reddis://u:RAWpw123@h", "etcd://u:RAWpw123@h", "redis://u:RAWpw123@", "redis://u:RAWpw123@h:port",
		"redis://u:RAWpw123@h:6379/x", "redis://u:12?RAWpw123@h", "redis://u:RAWpw123%zz@h",
		"redis+sentinel://u:RAWpw123@h", "postgres://u:RAWpw123@h/db?sslmode=x",
		"postgres://u@h/db?password=RAWpw123&sslmode=x", "postgres://u:RAWpw123@h:port/db",
		"host=h user=u password=RAWpw123", "postgres://u:RAWpw123 @h/db", "postgresql:u:RAWpw123@h/db", "memory RAWpw123",
		"memory://u:RAWpw123@h", "-RAWpw123", "[::1]:RAWpw123", "postgres://u:RAW%20pw123@h:port/RAWpw123", "redis://RAWpw123:RAWpw123",
	} {
		fsys := fstest.MapFS{
			"a.yaml":         &fstest.MapFile{Data: []byte(config)},
			"f.yaml":         &fstest.MapFile{Data: []byte(config + "store: '" + address + "'\n")},
			"v.yaml":         &fstest.MapFile{Data: []byte(config + "store: '${STORE}'\n")},
			"tenants/a.yaml": &fstest.MapFile{Data: []byte(policy)},
		}
		for _, way := range []struct {
			file string
			opt  tenants.Options
		}{
			{file: "f.yaml"},
			{file: "v.yaml", opt: tenants.Options{Env: []string{"STORE=" + address}}},
			{file: "a.yaml", opt: tenants.Options{Env: []string{"LLMGOV_STORE=" + address}}},
			{file: "a.yaml", opt: tenants.Options{Flags: map[string]string{"store": address}}},
		} {
			way.opt.Store = store.Check
			_, err := tenants.LoadFS(fsys, way.file, way.opt)
			if err == nil {
				t.Errorf("%q passes in %s", address, way.file)
				continue
			}
			if strings.Contains(err.Error(), "pw123") {
				t.Errorf("%q is shown: %v", address, err)
			}
		}
	}
}
