package streaming

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"pgregory.net/rapid"
)

// block is an event as a reader of the specification sees it.
type block struct{ Name, Data string }

var lineEnd = regexp.MustCompile("\r\n|\n|\r")

// oracle splits a whole input by the letter of the specification, a last event without blank line included.
func oracle(input string) (blocks []block) {
	input = strings.TrimPrefix(input, "\ufeff")
	var name string
	var data []string
	dispatch := func() {
		if data != nil {
			blocks = append(blocks, block{name, strings.Join(data, "\n")})
		}
		name = ""
		data = nil
	}
	for _, line := range lineEnd.Split(input, -1) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			dispatch()
		case key == "data":
			data = append(data, value)
		case key == "event":
			name = value
		}
	}
	dispatch()
	return blocks
}

// scan feeds pieces and collects what comes out: events with data, and all raw bytes.
func scan(s *Scanner, pieces ...[]byte) (blocks []block, raw []byte) {
	take := func(ev Event) {
		raw = append(raw, ev.Raw...)
		if ev.Data != nil {
			blocks = append(blocks, block{string(ev.Name), string(ev.Data)})
		}
	}
	for _, p := range pieces {
		s.Feed(bytes.Clone(p))
		for ev, ok := s.Next(); ok; ev, ok = s.Next() {
			take(ev)
		}
	}
	if ev, ok := s.Flush(); ok {
		take(ev)
	}
	return blocks, raw
}

func bytewise(p []byte) (pieces [][]byte) {
	for i := range p {
		pieces = append(pieces, p[i:i+1])
	}
	return pieces
}

func TestScanner(t *testing.T) {
	tests := []struct {
		in   string
		want []block
	}{
		{"", nil},
		{"data: a\n\n", []block{{"", "a"}}},
		{"data:a\n\ndata:  b\n\n", []block{{"", "a"}, {"", " b"}}},
		{"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", []block{{"", "a"}, {"", "b"}, {"", "c"}}},
		{"data: a\ndata: b\ndata\n\n", []block{{"", "a\nb\n"}}},
		{"data\n\n", []block{{"", ""}}},
		{"event: x\nid: 1\ndata: a\nretry: 5\n\n", []block{{"x", "a"}}},
		{"event: x\n\ndata: a\n\n", []block{{"", "a"}}},
		{"event: x\nevent: y\ndata: a\n\n", []block{{"y", "a"}}},
		{": ping\n\n: data: a\n\ndatax: b\n\n data: c\n\n", nil},
		{"\ufeffdata: a\n\n\ufeffdata: b\n\n", []block{{"", "a"}}},
		{"\n\n\ndata: a\n\n\n", []block{{"", "a"}}},
		{"data: a", []block{{"", "a"}}},
		{"data: a\n", []block{{"", "a"}}},
		{"data: a\r\n\r", []block{{"", "a"}}},
		{"data: a\x00\xff\u00fc\n\n", []block{{"", "a\x00\xff\u00fc"}}},
	}
	for _, tt := range tests {
		for _, pieces := range [][][]byte{{[]byte(tt.in)}, bytewise([]byte(tt.in))} {
			got, raw := scan(&Scanner{}, pieces...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%q in %d pieces: events (-want +got):\n%s", tt.in, len(pieces), diff)
			}
			if string(raw) != tt.in {
				t.Errorf("%q in %d pieces: raw bytes %q", tt.in, len(pieces), raw)
			}
		}
		if diff := cmp.Diff(tt.want, oracle(tt.in)); diff != "" {
			t.Errorf("%q: the oracle itself (-want +got):\n%s", tt.in, diff)
		}
	}
}

// TestScannerNoDelay: an event is out as soon as its blank line is, even if an LF may follow.
func TestScannerNoDelay(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r", "\n\r"} {
		var s Scanner
		s.Feed([]byte("data: a" + end))
		ev, ok := s.Next()
		if !ok || string(ev.Data) != "a" || string(ev.Raw) != "data: a"+end {
			t.Errorf("end %q: got %q, %v; want the event at once", end, ev.Raw, ok)
		}
	}
	var s Scanner
	s.Feed([]byte("data: a\r\n\r"))
	s.Next()
	s.Next()
	s.Feed([]byte("\ndata: b\n\n"))
	if ev, ok := s.Next(); !ok || string(ev.Raw) != "\n" || ev.Data != nil {
		t.Errorf("late LF: got %q, data %q", ev.Raw, ev.Data)
	}
	if ev, ok := s.Next(); !ok || string(ev.Raw) != "data: b\n\n" {
		t.Errorf("after the late LF: got %q", ev.Raw)
	}
}

func TestScannerWholeEventIsNotCopied(t *testing.T) {
	var s Scanner
	in := []byte("data: abc\n\ndata: def\n\n")
	s.Feed(in)
	ev, _ := s.Next()
	if &ev.Raw[0] != &in[0] || &ev.Data[0] != &in[6] {
		t.Error("a whole event should alias the fed bytes")
	}
}

func TestScannerFeedBeforeDrained(t *testing.T) {
	var s Scanner
	s.Feed([]byte("data: a\n\ndata: b\n\nda"))
	s.Next()
	s.Feed([]byte("ta: c\n\n"))
	got, raw := scan(&s)
	if got != nil || raw != nil {
		t.Fatalf("Flush before Next: %v %q", got, raw)
	}
	for _, want := range []string{"b", "c"} {
		if ev, ok := s.Next(); !ok || string(ev.Data) != want {
			t.Errorf("got %q, %v; want %q", ev.Data, ok, want)
		}
	}
}

func genStream(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"data: a", "data:b", "data", "event: e", ": ping", "id: 7", "x", "\n", "\n", "\n", "\r\n", "\r\n", "\r",
		"\r", "\n\n", "\r\n\r\n", "\ufeff", "data: {\"choices\":[]}", " ", ":", "\xff",
	}), 0, 40).Draw(t, "parts")
	return strings.Join(parts, "")
}

func cutUp(t *rapid.T, in string) (pieces [][]byte) {
	for len(in) > 0 {
		n := rapid.IntRange(1, len(in)).Draw(t, "piece")
		if rapid.Bool().Draw(t, "small") {
			n = min(n, 3)
		}
		pieces = append(pieces, []byte(in[:n]))
		in = in[n:]
	}
	return pieces
}

func TestScannerAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genStream(t)
		got, raw := scan(&Scanner{}, cutUp(t, in)...)
		if diff := cmp.Diff(oracle(in), got); diff != "" {
			t.Fatalf("%q: events (-want +got):\n%s", in, diff)
		}
		if string(raw) != in {
			t.Fatalf("raw bytes %q, want %q", raw, in)
		}
	})
}

// TestScannerOversize: events over the bound pass in pieces and unread, others are read, and where the
// pieces were cut makes no difference.
func TestScannerOversize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(4, 40).Draw(t, "limit")
		var in string
		var want []block
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			end := rapid.SampledFrom([]string{"\n\n", "\r\r", "\r\n\r\n"}).Draw(t, "end")
			data := fmt.Sprint(i) + strings.Repeat("x", rapid.IntRange(0, 60).Draw(t, "size"))
			event := "data:" + data + end
			in += event
			size := len(event)
			if end == "\r\n\r\n" {
				size--
			}
			if size <= limit {
				want = append(want, block{"", data})
			}
		}
		got, raw := scan(&Scanner{MaxEvent: limit}, cutUp(t, in)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("limit %d, %q: events (-want +got):\n%s", limit, in, diff)
		}
		if string(raw) != in {
			t.Fatalf("raw bytes %q, want %q", raw, in)
		}
	})
}

// TestScannerLimit: MaxEvent bytes are read, one more is not, and a late LF does not count.
func TestScannerLimit(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		event := "data: 0123456789" + end
		limit := len(strings.TrimSuffix(event, "\n"))
		if end == "\n\n" {
			limit = len(event)
		}
		for _, pieces := range [][][]byte{{[]byte(event)}, bytewise([]byte(event))} {
			if got, _ := scan(&Scanner{MaxEvent: limit}, pieces...); len(got) != 1 {
				t.Errorf("%q in %d pieces was not read with MaxEvent %d", event, len(pieces), limit)
			}
			if got, _ := scan(&Scanner{MaxEvent: limit - 1}, pieces...); len(got) != 0 {
				t.Errorf("%q in %d pieces was read with MaxEvent %d", event, len(pieces), limit-1)
			}
		}
	}
}

// TestScannerEventWithoutEnd: 100 MiB of one event, then another one.
func TestScannerEventWithoutEnd(t *testing.T) {
	var s Scanner
	piece := bytes.Repeat([]byte("x"), 32<<10)
	out := 0
	spent := testkit.Allocated(t, 1, func() {
		s = Scanner{MaxEvent: 1 << 20}
		out = 0
		for range (100 << 20) / len(piece) {
			s.Feed(piece)
			for ev, ok := s.Next(); ok; ev, ok = s.Next() {
				if !ev.Oversize {
					t.Fatalf("%d bytes were taken for an event", len(ev.Raw))
				}
				out += len(ev.Raw)
			}
			if cap(s.buf) > 3<<20 {
				t.Fatalf("%d bytes are kept", cap(s.buf))
			}
		}
	})
	if out != 100<<20 {
		t.Errorf("%d bytes came out of %d", out, 100<<20)
	}
	if spent.Bytes > 16<<20 {
		t.Errorf("%d bytes were allocated, want no more than a few times MaxEvent", spent.Bytes)
	}
	s.Feed([]byte("\n\ndata: a\n\n"))
	s.Next()
	if ev, ok := s.Next(); !ok || string(ev.Data) != "a" {
		t.Errorf("after the oversize event: got %q", ev.Raw)
	}
}

// TestScannerLinear: inputs made to be searched again and again. In a full run they are long enough for a quadratic
// scanner to run into the time limit of the test binary.
func TestScannerLinear(t *testing.T) {
	size := testkit.Rounds(1<<20, 8<<20)
	for name, unit := range map[string]string{"no line end": "x", "CR": "x\r", "LF": "x\n", "CRLF": "x\r\n", "data": "data:\r"} {
		t.Run(name, func(t *testing.T) {
			whole := Scanner{MaxEvent: 4 * size}
			whole.Feed([]byte(strings.Repeat(unit, size/len(unit)) + "\n\n"))
			if _, ok := whole.Next(); !ok {
				t.Error("fed at once: no event")
			}
			var pieces Scanner
			pieces.MaxEvent = size
			events := 0
			one := make([]byte, 1)
			for _, c := range []byte(strings.Repeat(unit, size/8/len(unit)) + "\n\n") {
				one[0] = c
				pieces.Feed(one)
				if _, ok := pieces.Next(); ok {
					events++
				}
			}
			if events == 0 {
				t.Error("fed by bytes: no event")
			}
		})
	}
	var many Scanner
	many.Feed(bytes.Repeat([]byte("\r"), 2*size))
	for _, ok := many.Next(); ok; _, ok = many.Next() {
	}
}

func TestScannerAllocs(t *testing.T) {
	var s Scanner
	in := []byte("event: x\ndata: {\"a\":1}\n\n: ping\n\ndata: a\ndata: b\n\ndata: half")
	rest := []byte(" of it\n\n")
	got := testkit.Allocs(t, 100, func() {
		for _, p := range [][]byte{in, rest} {
			s.Feed(p)
			for _, ok := s.Next(); ok; _, ok = s.Next() {
			}
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
