package streaming

import (
	"strings"
	"testing"
)

// TestLargeEventsAreReadInPassing: what typed events tell does not depend on the bound on an event, wherever they
// are cut. Of the deltas only those of a chat are missing.
func TestLargeEventsAreReadInPassing(t *testing.T) {
	for _, st := range corpus(t, ".sse") {
		family, _, _ := strings.Cut(st.name, "_")
		if !strings.Contains("anthropic responses image transcription speech", family) || st.want.Cause == Truncated {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for i := range st.cuts(len(st.in) + 1) {
				var res Result
				body := NewBody(&script{pieces: inTwo(st.in, i)}, Options{MaxEvent: 8, End: func(r Result) { res = r }})
				if got := drain(t, body, readSize); got != string(st.in) {
					t.Fatalf("cut at byte %d: got %q", i, got)
				}
				body.Close()
				res.Deltas = st.want.Deltas
				if res != st.want {
					t.Fatalf("cut at byte %d: got %+v, want %+v", i, res, st.want)
				}
			}
		})
	}
}

func TestFinderOfEvents(t *testing.T) {
	tests := []struct{ doc, found, kind string }{
		{`{"type":"a","response":{"usage":{"b":1},"type":"c"},"d":1}`, `{"b":1}`, "a"},
		{`{"response":{"e":{"usage":{"b":1}},"usage":null},"type":"a"}`, ``, "a"},
		{`{"response":{"message":{"usage":{"b":1}}}}`, ``, ""},
		{`{"response":[{"usage":{"b":1}}],"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":{"usage":{"b":1}},"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":"x","usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":{},"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"response":{"response":{"usage":{"b":1}}},"type":"` + strings.Repeat("a", 49) + `"}`, ``, ""},
		{`{"response":{"usage":{"b":{"usage":{"c":1}}}}}`, `{"b":{"usage":{"c":1}}}`, ""},
		{`{"type":{"type":"a"},"x":{"type":"b"}}`, ``, ""},
		{`{"type":"a","type":"bc"}`, ``, "bc"},
	}
	for _, tt := range tests {
		for i := range len(tt.doc) + 1 {
			f := finder{limit: 99, envelopes: true}
			f.feed([]byte(tt.doc[:i]))
			f.feed([]byte(tt.doc[i:]))
			if string(f.found) != tt.found || string(f.kind.bytes()) != tt.kind || f.state != behind {
				t.Errorf("%s cut at byte %d: found %s of kind %q", tt.doc, i, f.found, f.kind.bytes())
			}
		}
	}
}
