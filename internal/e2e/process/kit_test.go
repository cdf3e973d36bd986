package process

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { processtest.Main(m) }

const (
	// config is the name of a gateway's config in its folder.
	config   = "llmgov.yaml"
	anywhere = "listen: \"127.0.0.1:0\"\nadmin: {listen: \"127.0.0.1:0\"}\n"
	// kept lets a gateway remember what it did before it was killed.
	kept = "state_dir: state\n"
)

// newFolder has the files of a gateway before an upstream, with a pool of such limits, to the last call, and two tenants,
// whose keys are key-of-a and key-of-b: in a pool of one tenant the burst would be a whole minute.
func newFolder(t *testing.T, upstream, limits, settings string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	policy := "tenants:\n"
	for _, name := range []string{"a", "b"} {
		policy += fmt.Sprintf("  %s: {keys: [%q], max_wait: 50ms}\n", name, tenants.HashKey("key-of-"+name).String())
	}
	processtest.Write(t, dir, map[string]string{
		config: anywhere + settings + "upstreams: {mock: {base_url: " + upstream + "}}\n" +
			"pools:\n  p: {models: [\"*\"], headroom: 0, burst: 0s, max_queue: 100, " + limits + "}\n",
		"tenants/all.yaml": policy,
	})
	return dir
}

// upstream is the address of a simulated model server without limits.
func upstream(t *testing.T) string {
	t.Helper()
	return processtest.NewProvider(t, mock.Config{}).URL
}
