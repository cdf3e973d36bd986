package realtime

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/streaming"
)

// mostOpen bounds how many responses of a session may be open. Servers run one at a time, and some of
// those outside of the conversation.
const mostOpen = 16

// response is one response of a session: asked for, or in course.
type response struct {
	id     string // "" until it has begun
	ask    string // the event_id with which it was asked for; "" if it has none
	lease  governor.Lease
	held   bool // false if the limits had no room for it
	said   prompt
	prompt int64 // tokens of said, as held
	deltas int64

	assumed int64 // tokens of its answer, as held, if nothing says how long it may become
}

// responses are those that have not ended, the oldest first.
type responses []*response

func (l responses) full() bool { return len(l) >= mostOpen }

// held reports whether any of them has a lease.
func (l responses) held() bool {
	return slices.ContainsFunc(l, func(r *response) bool { return r.held })
}

// begun finds one that has begun by its id; the first one if the upstream does not say which.
func (l responses) begun(id string) *response {
	return l.first(func(r *response) bool { return r.id != "" && (id == "" || r.id == id) })
}

// asked finds one that was asked for and has not begun; the first one if the event has no name.
func (l responses) asked(event string) *response {
	return l.first(func(r *response) bool { return r.id == "" && (event == "" || r.ask == event) })
}

func (l responses) first(is func(*response) bool) *response {
	i := slices.IndexFunc(l, is)
	if i < 0 {
		return nil
	}
	return l[i]
}

// without returns the list without one of them.
func (l responses) without(r *response) responses {
	return slices.DeleteFunc(l, func(o *response) bool { return o == r })
}

// ended is what the upstream says of a response at its end.
type ended struct {
	id      string
	usage   governor.Usage
	known   bool // it says what it took
	whole   bool // it was neither cut off nor cancelled, and has not failed
	outside bool // of the conversation
}

func readEnd(response gjson.Result) ended {
	usage := response.Get("usage")
	status := response.Get("status").Str
	return ended{
		id:      response.Get("id").Str,
		usage:   readUsage(usage),
		known:   usage.IsObject(),
		whole:   status == "completed" || status == "",
		outside: response.Get("conversation_id").Raw == "null",
	}
}

// readUsage reads the usage of one response or transcription. Usage given as a duration has no tokens.
func readUsage(v gjson.Result) governor.Usage {
	u, _ := streaming.ReadUsage([]byte(v.Raw))
	return governor.Usage(u)
}
