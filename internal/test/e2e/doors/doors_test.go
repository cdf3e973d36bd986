package doors

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit/doctable"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// doors are all of them, in the order of the table.
var all = []*Door{&proxy, &transport, &middleware, &admissionGRPC, &admissionHTTP, &liteLLM, &envoyMetadata, &envoyBodies, &envoyRateLimit}

// TestDoors runs every case through every door.
func TestDoors(t *testing.T) {
	for _, d := range all {
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

// Door is a way to the governor, as its callers take it.
type Door struct {
	Name string
	// Needs skips a test if the door's own program is not installed; nil needs none.
	Needs func(t *testing.T)
	// Open opens the door in front of the site's model server, for as long as the test runs.
	Open func(t *testing.T, s *Site) Post
	// Cannot says why cases, by their names, are impossible by this door.
	Cannot map[string]string
	// Loses says why answers that break off may be charged less than was produced; "" if they are not.
	Loses string
	// InFlight is what becomes of a call while llmgov is killed, and Away of calls that come then.
	InFlight InFlight
	Away     Away
	// Rate is how many calls a second the door's own program can pass; 0 is plenty.
	Rate int
}

// Post makes a chat call with a tenant's key (KeyOf). It returns as http.Client.Do does; the error of a refusal may
// be a *client.Refusal instead of an answer with its status.
type Post func(ctx context.Context, tenant, body string) (*http.Response, error)

// InFlight is what becomes of a call while llmgov is killed.
type InFlight string

// The failure modes of calls in flight.
const (
	BreaksOff InFlight = "breaks off"
	GoesOn    InFlight = "goes on"
)

// Away is what becomes of calls that come while llmgov is away.
type Away string

// The failure modes of new calls.
const (
	Fails Away = "fail"
	Pass  Away = "pass"
)

// TestTable_IsOfTheSuite: the documentation promises what the suite tests, and names what a door cannot do.
func TestTable_IsOfTheSuite(t *testing.T) {
	doctable.Check(t, "../../../../docs/integrations.md", "<!-- table of doors and cases: made by internal/test/e2e/doors -->\n", table())
}

// table has a row for each case and a column for each door, and the reasons for what is impossible below.
func table() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, d := range all {
		b.WriteString(" " + d.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	var reasons []string
	for _, c := range cases {
		b.WriteString("| " + c.title + " |")
		for _, d := range all {
			cell := d.keeps(c.name)
			why := d.Cannot[c.name]
			if why != "" {
				cell = "no"
			}
			if c.name == "ends" && d.Loses != "" {
				why = d.Loses
			}
			if why != "" && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
			if why != "" {
				cell += fmt.Sprintf(" (%d)", slices.Index(reasons, why)+1)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	for i, why := range reasons {
		fmt.Fprintf(&b, "\n%d. %s", i+1, why)
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// keeps is how a door keeps a case.
func (d *Door) keeps(name string) string {
	if name == "llmgov" {
		return "the call " + string(d.InFlight) + "; new ones " + string(d.Away)
	}
	return "yes"
}
