package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// slots are the parts of the keys that a cluster distributes over its nodes.
const slots = 16384

// NewCluster starts a cluster of so many primaries without replicas.
func NewCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	var servers []*Server
	for i := range n {
		s := New(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.Port(t)), "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no",
		}, args...)...)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		servers = append(servers, s)
	}
	for i, s := range servers {
		for _, other := range servers[:i] {
			s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port()), other.busPort())
		}
	}
	for _, s := range servers {
		Eventually(t, "the cluster is complete", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_slots_ok:", slots))
		})
	}
	return servers
}

// busPort is the port of the server for other nodes of its cluster.
func (s *Server) busPort() string {
	_, after, _ := strings.Cut(s.Do("CONFIG", "GET", "cluster-port"), "\n")
	return after
}

// NewSentinel starts a Sentinel that watches a primary under a name, with a quorum of one.
func NewSentinel(t testing.TB, name string, primary *Server) *Server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 300\nsentinel failover-timeout %s 2000\n",
		name, primary.Port(), name, name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, conf, "--sentinel")
}
