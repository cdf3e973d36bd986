package doors

import (
	"context"
	"net/http"
	"testing"
)

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
