package streaming

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// stream is an answer of testdata, an event stream (.sse) or a plain one (.json), with all that should be known of
// it. Its .want file has a line for each thing, of a name and a value; the zero ones are left out:
//
//	usage input=19 cached=8 output=10 reasoning=4 audio_in=2 audio_out=1   written, written_1h, image_in, image_out, tools and tier, too; without this line nothing is reported
//	reported false                                         what is known of the usage is no report
//	deltas 2
//	events 6
//	cause truncated                                        empty if it ended before it began
//	withheld 5                                             which event is kept from a client that did not ask for usage
//	max_event 400
type stream struct {
	name     string
	in       []byte
	want     Result
	withheld int
	maxEvent int
}

// corpus reads the streams of testdata with that ending.
func corpus(t tester, ending string) (streams []stream) {
	files, err := filepath.Glob("testdata/*" + ending)
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in testdata: %v", ending, err)
	}
	for _, file := range files {
		streams = append(streams, readStream(t, file))
	}
	return streams
}

// cuts are the bytes below n at which the stream is cut: in a quick run every fourth, others in each stream, else all.
func (st *stream) cuts(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		step := testkit.Rounds(4, 1)
		for i := (len(st.in) + len(st.name)) % step; i < n; i += step {
			if !yield(i) {
				return
			}
		}
	}
}

func streamNamed(t tester, name string) stream {
	return readStream(t, "testdata/"+name+".sse")
}

func readStream(t tester, file string) stream {
	in := testkit.Must(os.ReadFile(file))(t)
	base := strings.TrimSuffix(file, filepath.Ext(file))
	want := testkit.Must(os.ReadFile(base + ".want"))(t)
	st := stream{name: filepath.Base(base), in: in, want: Result{Cause: Completed}}
	lines := bufio.NewScanner(bytes.NewReader(want))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != "#" && !st.set(t, name, value) {
			t.Fatalf("%s.want: %q is not understood", base, lines.Text())
		}
	}
	return st
}

func (st *stream) set(t tester, name, value string) bool {
	switch name {
	case "usage":
		st.want.Reported = true
		for part := range strings.FieldsSeq(value) {
			kind, count, _ := strings.Cut(part, "=")
			u := &st.want.Usage
			kinds := map[string]*int64{
				"input": &u.Input, "cached": &u.CachedInput, "output": &u.Output, "reasoning": &u.Reasoning, "audio_in": &u.AudioInput, "audio_out": &u.AudioOutput,
				"image_in": &u.ImageInput, "image_out": &u.ImageOutput, "written": &u.CacheWrite, "written_1h": &u.CacheWriteHour, "tools": &u.Tools,
			}
			if kind == "tier" {
				u.Tier = count
				continue
			}
			if kinds[kind] == nil {
				return false
			}
			*kinds[kind] = int64(number(t, count))
		}
	case "reported":
		st.want.Reported = value == "true"
	case "no_input":
		st.want.NoInput = true
	case "deltas":
		st.want.Deltas = int64(number(t, value))
	case "events":
		st.want.Events = int64(number(t, value))
	case "cause":
		return st.setCause(value)
	case "withheld":
		st.withheld = number(t, value)
	case "max_event":
		st.maxEvent = number(t, value)
	default:
		return false
	}
	return true
}

func (st *stream) setCause(name string) bool {
	switch name {
	case Completed.String():
	case Truncated.String():
		st.want.Cause = Truncated
		st.want.Err = io.ErrUnexpectedEOF
	case "empty":
		st.want.Cause = Truncated
		st.want.Err = ErrEmpty
	case UpstreamFailed.String():
		st.want.Cause = UpstreamFailed
		st.want.Err = ErrUpstream
	default:
		return false
	}
	return true
}

func number(t tester, text string) int {
	return testkit.Must(strconv.Atoi(text))(t)
}

// blankLine ends an event. No stream of testdata has one that is easy to take for two.
var blankLine = regexp.MustCompile(`\r\n\r\n|\n\r\n|\r\n\n|\n\n|\r\r`)

// out is what the client should get: all but a withheld event, the half event of a cut stream, and the end of nothing.
func (st *stream) out(withhold bool) string {
	var out strings.Builder
	rest := string(st.in)
	events := 0
	for rest != "" {
		end := len(rest)
		if at := blankLine.FindStringIndex(rest); at != nil {
			end = at[1]
		} else if st.want.Cause == Truncated {
			break
		}
		block := rest[:end]
		rest = rest[end:]
		if len(oracle(block)) > 0 {
			events++
			if withhold && events == st.withheld || st.want.Err == ErrEmpty && strings.Contains(block, endOfStream) {
				continue
			}
		}
		out.WriteString(block)
	}
	if st.want.Cause == Truncated {
		out.WriteString(brokenOff)
	}
	return out.String()
}

// tester is a test of the testing package or of rapid.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Failed() bool
}
