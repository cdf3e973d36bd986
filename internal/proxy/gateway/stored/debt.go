package stored

import (
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/streaming"
)

// Background responses and batches go on after their call has been answered, and report their usage only
// when they are done. Their maker is charged then, when an answer of the upstream first shows that they are.

// MaxUnseen is how many background responses or batches a tenant may have made without seeing their
// end. After that, the gateway looks after one of them itself for each that is made.
var MaxUnseen = map[objects.Kind]int{objects.Response: 16, objects.Batch: 0}

// ended are the states of objects that do not go on.
var ended = map[string]bool{"completed": true, "incomplete": true, "failed": true, "cancelled": true, "expired": true}

// HasEnded reports whether an object does not go on.
func HasEnded(shown gjson.Result) bool { return ended[shown.Get("status").Str] }

// End is the end of an object, as far as it is known.
type End struct {
	Model    string // that it names; "" is none
	Calls    int64  // of a batch, that were answered; 0 is not known
	Usage    governor.Usage
	Reported bool // the usage
	Left     bool // by the caller, before it was done
}

// ReadEnd reads the end of an object that an answer shows. ok is false if it goes on.
func ReadEnd(shown gjson.Result) (end End, ok bool) {
	if !HasEnded(shown) {
		return End{}, false
	}
	usage, reported := streaming.ReadUsage([]byte(shown.Get("usage").Raw))
	if tier := shown.Get("service_tier").Str; tier != "" {
		usage.Tier = streaming.ReadTier(tier)
	}
	return End{Model: shown.Get("model").Str, Calls: shown.Get("request_counts.completed").Int(), Usage: governor.Usage(usage), Reported: reported, Left: shown.Get("status").Str == "cancelled"}, true
}

// Collect has an object charged that is done. Of one that does not report its usage charge gets the prompt, and the
// part that was streamed of it, which is known when the stream ends.
func Collect(store *objects.Store, key objects.Key, end End, charge func(objects.Debt, governor.Usage) bool) error {
	return store.Collect(key, func(d *objects.Debt) bool {
		u := end.Usage
		switch {
		case !end.Reported && d.Kind == objects.Batch:
			u = governor.Usage{}
		case !end.Reported && d.Streams:
			d.Untold = true
			return false
		case !end.Reported:
			u = governor.Usage{Input: d.Input, Output: d.Output}
		}
		return charge(*d, u)
	})
}
