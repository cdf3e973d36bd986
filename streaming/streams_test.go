package streaming

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
)

// play runs a stream through a Body and compares all that comes of it.
func (st *stream) play(t tester, pieces [][]byte, want string, withhold bool, size int) bool {
	t.Helper()
	var results []Result
	body := NewBody(&script{pieces: pieces}, Options{
		WithholdUsage: withhold, MaxEvent: st.maxEvent, ErrorEvent: errorEvent,
		End: func(r Result) { r.Text = 0; results = append(results, r) },
	})
	got := drain(t, body, size)
	body.Close()
	if got != want { // cmp is too slow to be asked each time
		t.Errorf("withhold %v: bytes (-want +got):\n%s", withhold, cmp.Diff(want, got))
	}
	if len(results) != 1 || results[0] != st.want {
		t.Errorf("withhold %v: got %+v, want %+v once", withhold, results, st.want)
	}
	return !t.Failed()
}

// inTwo cuts a text in two; an empty piece is none.
func inTwo(in []byte, at int) [][]byte {
	return slices.DeleteFunc([][]byte{in[:at], in[at:]}, func(p []byte) bool { return len(p) == 0 })
}

// TestStreams: each stream, cut in two at each byte and fed by single bytes, gives the same bytes and the
// same answer.
func TestStreams(t *testing.T) {
	for _, st := range corpus(t, ".sse") {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for _, withhold := range []bool{false, true} {
				want := st.out(withhold)
				st.play(t, bytewise(st.in), want, withhold, 4<<10)
				st.play(t, bytewise(st.in), want, withhold, 1)
				st.play(t, [][]byte{st.in}, want, withhold, 1)
				st.play(t, [][]byte{st.in}, want, withhold, 7)
				if withhold != (st.withheld > 0) {
					continue // the cuts are the other one's
				}
				for i := range st.cuts(len(st.in) + 1) {
					if !st.play(t, inTwo(st.in, i), want, withhold, 4<<10) {
						t.Fatalf("cut at byte %d of %d", i, len(st.in))
					}
				}
			}
		})
	}
}

// TestStreamsCutAnywhere: so do many pieces of any size.
func TestStreamsCutAnywhere(t *testing.T) {
	streams := corpus(t, ".sse")
	rapid.Check(t, func(t *rapid.T) {
		st := rapid.SampledFrom(streams).Draw(t, "stream")
		withhold := rapid.Bool().Draw(t, "withhold")
		st.play(t, cutUp(t, string(st.in)), st.out(withhold), withhold, rapid.IntRange(1, 99).Draw(t, "size"))
	})
}

// TestPlainAnswers: the same for answers that are no streams.
func TestPlainAnswers(t *testing.T) {
	for _, st := range corpus(t, ".json") {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for i := range st.cuts(len(st.in) + 1) {
				if !st.playWhole(t, inTwo(st.in, i)) {
					t.Fatalf("cut at byte %d of %d", i, len(st.in))
				}
			}
			st.playWhole(t, bytewise(st.in))
		})
	}
}

func TestPlainAnswersCutAnywhere(t *testing.T) {
	answers := corpus(t, ".json")
	rapid.Check(t, func(t *rapid.T) {
		st := rapid.SampledFrom(answers).Draw(t, "answer")
		st.playWhole(t, cutUp(t, string(st.in)))
	})
}

// playWhole plays a plain answer. Its Text, of which only about the length is promised, is left out.
func (st *stream) playWhole(t tester, pieces [][]byte) bool {
	t.Helper()
	var results []Result
	w := NewWhole(&script{pieces: pieces}, WholeOptions{End: func(r Result) { r.Text = 0; results = append(results, r) }})
	got, err := io.ReadAll(w)
	w.Close()
	if !bytes.Equal(got, st.in) || err != nil {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(st.in))
	}
	if len(results) != 1 || results[0] != st.want {
		t.Errorf("got %+v, want %+v once", results, st.want)
	}
	return !t.Failed()
}

func TestMain(m *testing.M) { leaktest.Main(m) }
