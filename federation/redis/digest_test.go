package redis

import (
	"context"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// TestDigest_Impossible: what no memory can have made is as good as no digest.
func TestDigest_Impossible(t *testing.T) {
	t.Parallel()
	const rest = "version = 1, epoch = 5, turn = 1, now = 100000, limits = {100, 10}, may = {1, 1}, refundable = {1, 1}, gone = {from = 0, used = {{}, {}}}"
	s := open(t, redistest.New(t).URL())
	for what, digest := range map[string]string{
		"a digest":                   "held = {1, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"less than nothing":          "held = {-1, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"more than can be":           "held = {1e300, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"no number":                  "held = {0/0, 1}, booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"nothing held":               "booked = {from = 399, used = {{1, 2}, {1, 1}}}",
		"less than nothing used":     "held = {1, 1}, booked = {from = 399, used = {{1, -2}, {1, 1}}}",
		"slots of one axis only":     "held = {1, 1}, booked = {from = 399, used = {{1, 2}, {1}}}",
		"slots far ahead":            "held = {1, 1}, booked = {from = 399000, used = {{1, 2}, {1, 1}}}",
		"something else than a book": "held = {1, 1}, booked = 7",
	} {
		do(t, s, "FLUSHALL")
		text := do(t, s, "EVAL", "return cmsgpack.pack({"+rest+", "+digest+"})", 0).(string)
		b := &federation.Beat{
			Node: "n", Instance: "n", Join: true, Seq: 1, Epoch: 5, Limits: federation.Amounts{100, 10},
			Copy: &federation.Copy{Digest: []byte(text)},
		}
		r, err := s.Beat(context.Background(), "p", b)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if taken := r.Until-r.Now == 2500; taken != (what == "a digest") {
			t.Errorf("%s: it is taken: %v", what, taken)
		}
	}
}
