package streaming

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// framed are layouts of events in which chunks are told by their places, and frameless those in which they are not.
var (
	framed = []string{
		"data: %s\n\n",
		"data:%s \n\n",
		"event: response.output_text.delta\nid: 7\ndata: %s\nretry: 5\n\n",
		": a comment\rdata: %s\n\n",
		"data: %s\ndata:\n\n",
		"data: %s\nerror: %[1]s\n\n",
	}
	frameless = []string{
		"data: %s\r\n\r\n",
		"data: %s\r\r",
		"data: %s\n\r\n",
		"\ufeffevent: response.output_text.delta\ndata: %s\n\n",
		"event: %s\ndata: %[1]s\n\n",
		"error: %s\ndata: %[1]s\n\n",
	}
)

// laidOut is an event of a layout around a chunk.
func laidOut(layout, chunk string) string {
	return strings.NewReplacer("%s", chunk, "%[1]s", chunk).Replace(layout)
}

// TestFrame: that events are found and counted in one look changes nothing, wherever they differ, and wherever they are cut.
// Byte by byte, none is found in that way.
//
// Seen to fail with: line ends in the text of a chunk; a chunk in the name of an event, or behind a byte order mark; the rest
// of the event not compared; events that are not counted; a limit of events that is passed over; events that begin within
// others, and within those that are too large.
func TestFrame(t *testing.T) {
	for _, base := range []struct {
		chunk string
		step  int
	}{
		{`{"delta":"a"}`, 1},
		{`{"choices":[{"text":"a"}]}`, testkit.Rounds(11, 1)},
		{parts[1].data, testkit.Rounds(101, 7)},
	} {
		for _, layout := range append(framed, frameless...) {
			event := laidOut(layout, base.chunk)
			for i := 0; i < len(event); i += base.step {
				for _, c := range "\"\\,1\n\r" {
					playTwice(t, event, event[:i]+string(c)+event[i+1:]+event)
					playTwice(t, event, event[:i]+string(c)+event[i:]+event)
				}
				playTwice(t, event, event[:i]+event[i+1:]+event)
				playTwice(t, event, event[:i], event, event)
			}
			playTwice(t, event, ":"+strings.Repeat("x", len(event)), event, event)
			playTwice(t, event, "data: "+usageChunk+"\r\r", event+"\n"+event)
		}
	}
}

// playTwice plays a stream in pieces and byte by byte, and compares what comes of it.
func playTwice(t *testing.T, pieces ...string) {
	t.Helper()
	var given [][]byte
	for _, piece := range pieces {
		given = append(given, []byte(piece))
	}
	for _, most := range []int{0, len(pieces[0])} {
		play := func(pieces ...[]byte) (out string, res Result) {
			body := NewBody(&script{pieces: pieces}, Options{WithholdUsage: true, MaxEvent: most, End: func(r Result) { res = r }})
			out = drain(t, body, 8<<10)
			return out, res
		}
		want, wantRes := play(inSteps([]byte(strings.Join(pieces, "")), 0)...)
		if got, res := play(given...); got != want || res != wantRes {
			t.Fatalf("%q, events of at most %d, becomes\n%q %+v\nbyte by byte\n%q %+v", pieces, most, got, res, want, wantRes)
		}
	}
}

// TestFrameServesMost: parts that differ in what varies are found in one look, as many as there is room for.
func TestFrameServesMost(t *testing.T) {
	for _, layout := range framed[:4] {
		event := func(text string) string { return laidOut(layout, `{"choices":[{"text":"`+text+`"}]}`) }
		body := NewBody(&script{}, Options{})
		defer body.Close()
		body.scan.Feed([]byte(laidOut(framed[2], chatChunk) + event("Once") + event(" upon") + event(` a \"time\"`) + event(", ") + "data: "))
		for range 2 { // of which the first is no longer remembered then
			next, _ := body.scan.Next()
			body.observeLocked(next)
		}
		body.skimLocked(1)
		if got, want := string(body.out), event(" upon"); got != want {
			t.Errorf("with room for a byte, %q is found, not %q", got, want)
		}
		body.skimLocked(1 << 10)
		if got, want := string(body.out), event(` a \"time\"`)+event(", "); got != want || body.meter.Deltas() != 5 || body.events != 5 {
			t.Errorf("%q is found, %d deltas in %d events; not %q", got, body.meter.Deltas(), body.events, want)
		}
	}
}

// TestFrameless: chunks that are not told by their places have no frame.
func TestFrameless(t *testing.T) {
	for _, layout := range frameless {
		body := NewBody(&script{}, Options{})
		defer body.Close()
		event := laidOut(layout, chatChunk)
		body.scan.Feed([]byte(event + event))
		next, _ := body.scan.Next()
		body.observeLocked(next)
		body.out = nil
		body.skimLocked(1)
		if len(body.out) > 0 || body.meter.Deltas() != 1 {
			t.Errorf("%q is found behind %q, of %d deltas", body.out, event, body.meter.Deltas())
		}
	}
}
