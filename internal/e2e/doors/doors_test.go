package doors

import (
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// doors are all of them, in the order of the table.
var doors = []*Door{&proxy, &transport, &middleware, &admissionGRPC, &admissionHTTP, &liteLLM, &envoyMetadata, &envoyBodies, &envoyRateLimit}

// TestDoors runs every case through every door.
func TestDoors(t *testing.T) {
	for _, d := range doors {
		t.Run(d.Name, func(t *testing.T) {
			if d.Needs != nil {
				d.Needs(t)
			}
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					if why := d.Cannot[c.name]; why != "" {
						t.Skip(why)
					}
					c.run(t, d)
				})
			}
		})
	}
}

func TestMain(m *testing.M) { processtest.Main(m) }
