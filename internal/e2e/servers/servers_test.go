package servers

import (
	"flag"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// servers are all of them, in the order of the table.
var servers = []*server{&llamaCPP, &vLLM}

// measured is how long the cases take that measure.
var measured = flag.Duration("measured", 10*time.Minute, "how long shares are measured; limits take two minutes at most")

// TestServers runs every case in front of every server.
func TestServers(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, r) })
			}
		})
	}
}

func TestMain(m *testing.M) { processtest.Main(m) }
