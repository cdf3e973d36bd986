package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// NewCluster starts a cluster of so many primaries without replicas.
func NewCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	var servers []*Server
	create := []string{"--cluster", "create"}
	for range n {
		s := New(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.Port(t)), "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no",
		}, args...)...)
		servers = append(servers, s)
		create = append(create, s.Addr())
	}
	if n == 1 {
		servers[0].Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	} else if out, err := exec.Command("redis-cli", append(create, "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for _, s := range servers {
		Eventually(t, "the cluster is complete", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return servers
}

// NewSentinel starts a Sentinel that watches a primary under a name, with a quorum of one.
func NewSentinel(t testing.TB, name string, primary *Server) *Server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 300\nsentinel failover-timeout %s 2000\n",
		name, primary.port, name, name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, conf, "--sentinel")
}
