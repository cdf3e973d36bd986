package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// writeUpstreams prints the upstreams of the call's pool, if they have limits of their own: where the call goes, and why it passes over
// the others.
func (a *Answer) writeUpstreams(w io.Writer) error {
	if len(a.Upstreams) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "\n  UPSTREAM\tORDER\tSTATE\n")
	for i := range a.Upstreams {
		u := &a.Upstreams[i]
		fmt.Fprintf(tw, "  %s\t%d\t%s\n", u.Name, u.Order, a.stateOf(u))
	}
	return tw.Flush()
}

// stateOf says whether the call goes to an upstream, and if not, why.
func (a *Answer) stateOf(u *adminapi.ExplainedUpstream) string {
	switch u.State {
	case adminapi.UpstreamNotAllowed:
		return "not allowed for " + a.Tenant + " (upstreams)"
	case adminapi.UpstreamTooSmall:
		return fmt.Sprintf("too small: %s %s, and the call asks for %s", u.Key, amount(u.Limit), amount(u.Asked))
	case adminapi.UpstreamPerTenant:
		return a.Tenant + " runs as many calls there as it may, because calls of it have failed there (per_tenant)"
	case adminapi.UpstreamClosed:
		return "closed for " + seconds(u.Wait) + ": it failed, or asked for a pause"
	case adminapi.UpstreamFull:
		text := fmt.Sprintf("full: %s %s, used %s, asked %s", u.Key, amount(u.Limit), amount(u.Used), amount(u.Asked))
		if u.Wait > 0 {
			text += "; room in " + seconds(u.Wait)
		}
		return text
	}
	return a.withRoom(u)
}

// withRoom says whether the call goes to an upstream that has room for it, and if not, why.
func (a *Answer) withRoom(u *adminapi.ExplainedUpstream) string {
	chosen := slices.IndexFunc(a.Upstreams, func(o adminapi.ExplainedUpstream) bool {
		return a.Decision != nil && o.Name == a.Decision.Upstream
	})
	if chosen < 0 {
		return "has room"
	}
	there := &a.Upstreams[chosen]
	switch {
	case there.Name == u.Name:
		return "the call goes here"
	case there.Order < u.Order:
		return "has room; comes after order " + strconv.FormatInt(there.Order, 10)
	case there.Order > u.Order:
		return "has room, but earlier calls wait for it"
	}
	return "has room; it is the turn of " + there.Name
}

// turn is the lack of a call that has room in all limits, and waits for its turn.
func (a *Answer) turn() string {
	room := func(u adminapi.ExplainedUpstream) bool { return u.State == adminapi.UpstreamRoom }
	if len(a.Upstreams) == 0 || slices.ContainsFunc(a.Upstreams, room) {
		return "its turn"
	}
	return "room at an upstream"
}
