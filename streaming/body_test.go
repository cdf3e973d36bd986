package streaming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// script is an upstream that gives one piece a Read, and then err (io.EOF when nil).
type script struct {
	pieces [][]byte
	err    error
	closes atomic.Int32
	off    int // read of pieces[0]
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0][s.off:])
	s.off += n
	if s.off == len(s.pieces[0]) {
		s.pieces = s.pieces[1:]
		s.off = 0
	}
	return n, nil
}

func (s *script) Close() error {
	s.closes.Add(1)
	return nil
}

const brokenOff = "data: {\"error\":{\"message\":\"upstream broke off\",\"code\":\"upstream_error\"}}\n\n"

func errorEvent(error) []byte { return []byte(brokenOff) }

// drain reads all of a body through a buffer of the given size, of which nothing is left from one Read to the next.
func drain(t tester, body io.Reader, size int) string {
	t.Helper()
	var out bytes.Buffer
	p := make([]byte, size)
	for {
		n, err := body.Read(p)
		out.Write(p[:n])
		clear(p)
		if err == io.EOF {
			return out.String()
		}
		if err != nil || n == 0 {
			t.Fatalf("Read: %d, %v", n, err)
		}
	}
}

// TestTruncatedEverywhere: a stream cut off at any byte, by a clean end or by an error, gives whole events
// and one error event, unless its choices had all finished.
func TestTruncatedEverywhere(t *testing.T) {
	in := streamNamed(t, "openai_chat").in
	finished := bytes.Index(in, []byte(`"stop"`))
	finished += bytes.Index(in[finished:], []byte("\n\n")) + 2
	reset := errors.New("connection reset by peer")
	for i := range len(in) {
		for _, upstreamErr := range []error{nil, reset} {
			var res Result
			body := NewBody(&script{pieces: [][]byte{in[:i]}, err: upstreamErr}, Options{
				ErrorEvent: errorEvent, End: func(r Result) { res = r },
			})
			if i == 0 {
				body.upstream.(*script).pieces = nil
			}
			got := drain(t, body, 32<<10)
			whole := in[:bytes.LastIndex(append([]byte("\n\n"), in[:i]...), []byte("\n\n"))]
			want := string(whole) + brokenOff
			// At a clean end a line that is complete but for its blank line is as good as an event.
			atEnd := upstreamErr == nil && bytes.HasSuffix(bytes.TrimRight(in[:i], "\n"), []byte("}"))
			switch {
			case i >= finished && upstreamErr == nil:
				want = ""
			case i >= finished:
				want = string(whole)
			case atEnd && i >= finished-2:
				want = string(in[:i])
			}
			if want != "" && got != want {
				t.Fatalf("cut at byte %d by %v: got %q, want %q", i, upstreamErr, got, want)
			}
			if i >= finished && (!bytes.HasPrefix(in, []byte(got)) || len(got) < len(whole)) {
				t.Fatalf("cut at byte %d by %v behind the end: got %q", i, upstreamErr, got)
			}
			wantCause := Truncated
			if i >= finished || atEnd && i >= finished-2 {
				wantCause = Completed
			}
			if res.Cause != wantCause {
				t.Fatalf("cut at byte %d by %v: %+v, want %v", i, upstreamErr, res, wantCause)
			}
			if wantCause == Truncated && upstreamErr != nil && res.Err != reset {
				t.Fatalf("cut at byte %d: error %v", i, res.Err)
			}
		}
	}
}

// terminalAt is where the terminal event begins, if there is one.
func terminalAt(in []byte) int {
	var s Scanner
	var m Meter
	s.Feed(in)
	at := 0
	for {
		ev, ok := s.Next()
		if !ok {
			return math.MaxInt
		}
		if ev.Data != nil && m.Observe(ev.Name, ev.Data) == Final {
			return at
		}
		at += len(ev.Raw)
	}
}

// TestEndsAtTheTerminalEvent: End does not wait for upstream to close, nor for the client to have read it all.
func TestEndsAtTheTerminalEvent(t *testing.T) {
	for whole, want := range map[string]Result{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n": {
			Usage: Usage{Input: 1, Output: 2}, Reported: true, Deltas: 1, Events: 3, Cause: Completed,
		},
		"data: {\"type\":\"response.failed\",\"response\":{\"usage\":{\"input_tokens\":1}}}\n\n": {
			Usage: Usage{Input: 1}, Reported: true, Events: 1, Cause: UpstreamFailed, Err: ErrUpstream,
		},
	} {
		upstream, write := io.Pipe()
		var results []Result
		body := NewBody(upstream, Options{End: func(r Result) { results = append(results, r) }})
		go func() { _, _ = io.WriteString(write, whole) }() // and stays open
		testkit.Must(io.ReadFull(body, make([]byte, len(whole)-1)))(t)
		if len(results) != 1 || results[0] != want {
			t.Fatalf("got %+v before upstream has closed, want %+v", results, want)
		}
		body.Close()
		if len(results) != 1 {
			t.Fatalf("End was called %d times", len(results))
		}
	}
}

// TestClientGoneEverywhere: the client closes after any byte. What upstream had sent is metered.
func TestClientGoneEverywhere(t *testing.T) {
	for _, st := range corpus(t, ".sse") {
		if len(st.in) > readSize {
			continue // what had come is not all of it
		}
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			all := len(st.out(false))
			final := terminalAt(st.in)
			wholeEvents := bytes.HasSuffix(st.in, []byte("\n\n")) || bytes.HasSuffix(st.in, []byte("\r\n\r\n")) || bytes.HasSuffix(st.in, []byte("\r\r"))
			for i := range st.cuts(all) {
				up := &script{pieces: [][]byte{st.in}}
				var results []Result
				body := NewBody(up, Options{MaxEvent: st.maxEvent, ErrorEvent: errorEvent, End: func(r Result) { results = append(results, r) }})
				testkit.Must(io.ReadFull(body, make([]byte, i)))(t)
				body.Close()
				body.Close()
				if len(results) != 1 || up.closes.Load() != 1 {
					t.Fatalf("after byte %d: %d results, %d closes of upstream", i, len(results), up.closes.Load())
				}
				res := results[0]
				if i > final {
					if res.Cause != st.want.Cause || res.Deltas != st.want.Deltas {
						t.Fatalf("after byte %d, within the terminal event: %+v", i, res)
					}
					continue
				}
				failed := st.want.Cause == UpstreamFailed && i > 0
				if failed != (res.Cause == UpstreamFailed) || !failed && i < all-len(brokenOff) && res.Cause != ClientGone {
					t.Fatalf("after byte %d: %+v", i, res)
				}
				if wholeEvents && i > 0 && i < all-len(brokenOff) && res.Deltas != st.want.Deltas {
					t.Fatalf("after byte %d: %d deltas, want %d as had arrived", i, res.Deltas, st.want.Deltas)
				}
				if n, err := body.Read(make([]byte, 8)); n != 0 || err != ErrClosed {
					t.Fatalf("Read after Close: %d, %v", n, err)
				}
			}
		})
	}
}

func TestCloseAfterTerminalEventIsCompleted(t *testing.T) {
	for end, want := range map[string]Cause{
		"data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n": Completed,
		"data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n":                 ClientGone,
	} {
		var res Result
		body := NewBody(&script{pieces: [][]byte{[]byte(end)}}, Options{End: func(r Result) { res = r }})
		testkit.Must(io.ReadFull(body, make([]byte, len(end))))(t)
		body.Close()
		if res.Cause != want {
			t.Errorf("closed after %q: %v, want %v", end, res.Cause, want)
		}
	}
}

func TestUpstreamErrors(t *testing.T) {
	const delta = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	tests := []struct {
		name    string
		in      string
		err     error
		max     int
		want    string
		cause   Cause
		wantErr error
	}{
		{"reset", delta + "data: ha", io.ErrUnexpectedEOF, 0, delta + brokenOff, Truncated, io.ErrUnexpectedEOF},
		{"client's cancel", delta, context.Canceled, 0, delta + brokenOff, ClientGone, context.Canceled},
		{"cancel after the end", delta + "data: [DONE]\n\n", context.Canceled, 0, delta + "data: [DONE]\n\n", Completed, nil},
		{"deadline", delta, context.DeadlineExceeded, 0, delta + brokenOff, Truncated, context.DeadlineExceeded},
		{"empty", "", nil, 0, brokenOff, Truncated, ErrEmpty},
		{"empty and cut", "", io.ErrUnexpectedEOF, 0, brokenOff, Truncated, io.ErrUnexpectedEOF},
		{"keep-alives only", ": a\n\n: b\n\n", nil, 0, ": a\n\n: b\n\n" + brokenOff, Truncated, ErrEmpty},
		{"no second error", "data: {\"error\":\"x\"}\n\ndata: ha", io.ErrUnexpectedEOF, 0, "data: {\"error\":\"x\"}\n\n", UpstreamFailed, ErrUpstream},
		{"error without blank line", "data: {\"error\":\"x\"}\n", nil, 0, "data: {\"error\":\"x\"}\n", UpstreamFailed, ErrUpstream},
		{"half event behind the end", delta + "data: [DONE]\n\ndata: {\"ha", nil, 0, delta + "data: [DONE]\n\n", Completed, nil},
		{"comment behind the end", delta + "data: [DONE]\n\n: bye", nil, 0, delta + "data: [DONE]\n\n: bye", Completed, nil},
		{
			"broken inside an oversize event", delta + "data: {\"" + strings.Repeat("x", 99), io.ErrUnexpectedEOF, 90,
			delta + "data: {\"" + strings.Repeat("x", 99) + "\n\n" + brokenOff, Truncated, io.ErrUnexpectedEOF,
		},
		{
			"ended inside an oversize event", delta + "data: {\"" + strings.Repeat("x", 99), nil, 90,
			delta + "data: {\"" + strings.Repeat("x", 99) + "\n\n" + brokenOff, Truncated, io.ErrUnexpectedEOF,
		},
		{
			"ended after an oversize event", delta + "data: {\"" + strings.Repeat("x", 99) + "\"}\n\n", nil, 90,
			delta + "data: {\"" + strings.Repeat("x", 99) + "\"}\n\n", Completed, nil,
		},
		{
			"broken after an oversize event", "data: {\"" + strings.Repeat("x", 99) + "\"}\n\n", io.ErrUnexpectedEOF, 90,
			"data: {\"" + strings.Repeat("x", 99) + "\"}\n\n" + brokenOff, Truncated, io.ErrUnexpectedEOF,
		},
		{
			"ended after a delta behind an oversize event", "data: {\"" + strings.Repeat("x", 99) + "\"}\n\n" + delta, nil, 90,
			"data: {\"" + strings.Repeat("x", 99) + "\"}\n\n" + delta + brokenOff, Truncated, io.ErrUnexpectedEOF,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][][]byte{bytewise([]byte(tt.in)), slices.Collect(slices.Chunk([]byte(tt.in), 1000))} {
				var res Result
				var told error
				body := NewBody(&script{pieces: pieces, err: tt.err}, Options{
					MaxEvent:   tt.max,
					ErrorEvent: func(err error) []byte { told = err; return errorEvent(err) },
					End:        func(r Result) { res = r },
				})
				if got := drain(t, body, 50); got != tt.want {
					t.Errorf("bytes %q, want %q", got, tt.want)
				}
				if res.Cause != tt.cause || !errors.Is(res.Err, tt.wantErr) {
					t.Errorf("result %+v, want %v, %v", res, tt.cause, tt.wantErr)
				}
				if strings.Contains(tt.want, brokenOff) && told != tt.wantErr {
					t.Errorf("the error event was asked for %v", told)
				}
				if n, err := body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("Read after the end: %d, %v", n, err)
				}
			}
		})
	}
}

func TestNoCallbacks(t *testing.T) {
	body := NewBody(&script{pieces: [][]byte{[]byte("data: a\n\ndata: b")}}, Options{Idle: time.Hour})
	if got := drain(t, body, 4); got != "data: a\n\n" {
		t.Errorf("got %q", got)
	}
	if n, err := body.Read(nil); n != 0 || err != nil {
		t.Errorf("empty Read: %d, %v", n, err)
	}
}

// pipe is an upstream in virtual time.
type pipe struct {
	*io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

func (p pipe) send(t *testing.T, s string) {
	t.Helper()
	if _, err := io.WriteString(p.w, s); err != nil {
		t.Errorf("upstream's write: %v", err)
	}
}

// TestNothingIsHeldBack: an event is there when it has come, whatever follows.
func TestNothingIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newPipe()
		body := NewBody(up, Options{})
		go func() {
			up.send(t, "data: a\n\nda")
			time.Sleep(time.Minute)
			up.send(t, "ta: b\n\n: ping\n\n")
			time.Sleep(time.Minute)
			up.w.Close()
		}()
		start := time.Now()
		p := make([]byte, 100)
		for _, want := range []struct {
			text string
			at   time.Duration
		}{{"data: a\n\n", 0}, {"data: b\n\n: ping\n\n", time.Minute}} {
			n, err := body.Read(p)
			if string(p[:n]) != want.text || err != nil || time.Since(start) != want.at {
				t.Errorf("after %v: %q, %v; want %q after %v", time.Since(start), p[:n], err, want.text, want.at)
			}
		}
		if _, err := body.Read(p); err != io.EOF {
			t.Errorf("end: %v", err)
		}
	})
}

func TestIdle(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			up := newPipe()
			start := time.Now()
			var res Result
			opt := Options{Idle: 10 * time.Second, ErrorEvent: errorEvent, End: func(r Result) { res = r }}
			if interrupted {
				opt.Interrupt = func(err error) {
					if err != ErrIdle {
						t.Errorf("interrupted by %v", err)
					}
					up.w.CloseWithError(context.Canceled)
				}
			}
			body := NewBody(up, opt)
			go func() {
				for range 5 {
					time.Sleep(9 * time.Second)
					up.send(t, ": ping\n\n")
				}
			}()
			got := drain(t, body, 100)
			body.Close()
			if want := strings.Repeat(": ping\n\n", 5) + brokenOff; got != want {
				t.Errorf("bytes %q, want %q", got, want)
			}
			if res.Cause != IdleTimeout || res.Err != ErrIdle || time.Since(start) != 55*time.Second {
				t.Errorf("after %v: %+v", time.Since(start), res)
			}
		})
	}
}

// TestSlowClientIsNoIdleUpstream: the time between two Reads is the client's.
func TestSlowClientIsNoIdleUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var res Result
		body := NewBody(&script{pieces: hundred()}, Options{
			Idle:      time.Second,
			Interrupt: func(error) { t.Error("interrupted") },
			End:       func(r Result) { res = r },
		})
		p := make([]byte, 32<<10)
		for _, err := body.Read(p); err == nil; _, err = body.Read(p) {
			time.Sleep(10 * time.Second)
		}
		if res.Cause != Completed || res.Deltas != 100 {
			t.Errorf("%+v", res)
		}
	})
}

// TestLateTimer: the timer fires while nothing is waited for, and early in a wait. Each wait has its whole time.
//
// Seen to fail with: no regard of whether anything is waited for; the whole time anew whenever the timer fires.
func TestLateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newPipe()
		start := time.Now()
		var silent []time.Duration
		body := NewBody(up, Options{Idle: time.Second, Interrupt: func(err error) {
			silent = append(silent, time.Since(start))
			up.w.CloseWithError(err)
		}})
		go func() {
			time.Sleep(time.Second / 2)
			up.send(t, "data: a\n\n")
		}()
		p := make([]byte, 100)
		if n, err := body.Read(p); n == 0 || err != nil {
			t.Errorf("Read: %d, %v", n, err)
		}
		time.Sleep(1200 * time.Millisecond)
		if n, err := body.Read(p); n != 0 || err != io.EOF {
			t.Errorf("Read: %d, %v", n, err)
		}
		time.Sleep(time.Minute)
		body.Close()
		body.idle()
		if want := []time.Duration{2700 * time.Millisecond}; !slices.Equal(silent, want) {
			t.Errorf("interrupted after %v, want %v", silent, want)
		}
	})
}

// TestIdleAfterTheEnd: an upstream that does not hang up after [DONE] has not failed, unless there was nothing before, which is told at once.
func TestIdleAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for in, want := range map[string]string{"data: {}\n\ndata: [DONE]\n\n": "data: {}\n\n" + brokenOff, answered: answered} {
			up := newPipe()
			var res Result
			began := time.Now()
			body := NewBody(up, Options{Idle: time.Second, ErrorEvent: errorEvent, End: func(r Result) { res = r }})
			go up.send(t, in)
			got := drain(t, body, 100)
			empty := want != in
			if got != want || (res.Cause == Completed) == empty || (time.Since(began) == 0) != empty || res.InPlace() != empty {
				t.Errorf("%q after %v, %+v", got, time.Since(began), res)
			}
		}
	})
}

const answered = "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n"

// TestQuiet: whoever waits for the first bytes is told once that they let wait for themselves, and of no later silence.
//
// Seen to fail with: no regard of what was passed on; a call each time that the timer fires.
func TestQuiet(t *testing.T) {
	for _, tt := range []struct {
		name  string
		idle  time.Duration
		waits []time.Duration // before each event
		quiet []time.Duration
	}{
		{"first late", time.Minute, []time.Duration{time.Second, time.Second}, []time.Duration{quietAfter}},
		{"first late, for ever", 0, []time.Duration{5 * time.Minute}, []time.Duration{quietAfter}},
		{"first at once", time.Minute, []time.Duration{0, time.Second, 30 * time.Second}, nil},
		{"silent", time.Minute, []time.Duration{10 * time.Minute}, []time.Duration{quietAfter}},
	} {
		testkit.Virtual(t, tt.name, func(t *testing.T) {
			up := newPipe()
			start := time.Now()
			var quiet []time.Duration
			body := NewBody(up, Options{
				Idle: tt.idle, Quiet: func() { quiet = append(quiet, time.Since(start)) },
				Interrupt: func(err error) { up.w.CloseWithError(err) },
			})
			go func() {
				for _, d := range tt.waits {
					time.Sleep(d)
					if _, err := io.WriteString(up.w, "data: a\n\n"); err != nil {
						return
					}
				}
				up.w.Close()
			}()
			drain(t, body, 100)
			time.Sleep(time.Hour) // for all that may come still
			synctest.Wait()
			if !slices.Equal(quiet, tt.quiet) {
				t.Errorf("told at %v, want %v", quiet, tt.quiet)
			}
		})
	}
}

func TestFirstAndProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newPipe()
		start := time.Now()
		var first []time.Duration
		var progress []int64
		body := NewBody(up, Options{
			First:    func() { first = append(first, time.Since(start)) },
			Progress: func(n int64) { progress = append(progress, n) },
		})
		go func() {
			time.Sleep(time.Second)
			up.send(t, ": ping\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n")
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				up.send(t, "data: "+chatChunk+"\n\n")
			}
			time.Sleep(time.Second)
			up.send(t, ": ping\n\ndata: [DONE]\n\n")
			up.w.Close()
		}()
		drain(t, body, 32<<10)
		testkit.Same(t, []time.Duration{1100 * time.Millisecond}, first, "first")
		testkit.Same(t, []int64{1, 4, 7, 10}, progress, "progress")
	})
}

// TestEndOnce: reads and closes that race end the stream once, and with the lock free.
func TestEndOnce(t *testing.T) {
	for i := range 300 {
		up := newPipe()
		var ends atomic.Int32
		var body *Body
		lockIsFree := func() {
			body.mu.Lock()
			defer body.mu.Unlock()
		}
		body = NewBody(up, Options{
			Idle:       time.Hour,
			ErrorEvent: func(err error) []byte { lockIsFree(); return errorEvent(err) },
			First:      lockIsFree,
			Progress:   func(int64) { lockIsFree() },
			End:        func(Result) { ends.Add(1); lockIsFree() },
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, p := range hundred()[:i%7] {
				if _, err := up.w.Write(p); err != nil {
					return
				}
			}
			if i%3 == 0 {
				up.w.CloseWithError(io.ErrUnexpectedEOF)
			}
		})
		wg.Go(func() { _, _ = io.Copy(io.Discard, body) })
		for range 3 {
			wg.Go(func() { body.Close() })
		}
		wg.Wait()
		if ends.Load() != 1 {
			t.Fatalf("round %d: ended %d times", i, ends.Load())
		}
	}
}

func TestCloseUnblocksRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var res Result
		body := NewBody(newPipe(), Options{Idle: time.Minute, Interrupt: func(error) { t.Error("interrupted") }, End: func(r Result) { res = r }})
		done := make(chan error)
		go func() {
			_, err := body.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		body.Close()
		if err := <-done; err != ErrClosed || res.Cause != ClientGone {
			t.Errorf("Read: %v; %+v", err, res)
		}
		time.Sleep(time.Hour)
	})
}

// TestBodyAllocs: the allocations of a stream do not grow with its chunks.
func TestBodyAllocs(t *testing.T) {
	p := make([]byte, 32<<10)
	body := NewBody(&endless{piece: hundred()[0]}, Options{Idle: time.Hour, Progress: func(int64) {}})
	defer body.Close()
	if got := testkit.Allocs(t, 1000, func() { _, _ = body.Read(p) }); got != 0 {
		t.Errorf("%v allocations a chunk, want 0", got)
	}
	setup := testkit.Allocs(t, 100, func() { NewBody(io.NopCloser(nil), Options{}) })
	if setup > 3 {
		t.Errorf("%v allocations a stream, want at most 3", setup)
	}
}

type endless struct{ piece []byte }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.piece), nil }
func (e *endless) Close() error               { return nil }

// lastly is an upstream whose end, or error, comes along with its last bytes, as net/http's do.
type lastly struct {
	script
	end error
}

func (l *lastly) Read(p []byte) (int, error) {
	n, err := l.script.Read(p)
	if err == nil && len(l.pieces) == 0 {
		err = l.end
	}
	return n, err
}

func TestBody_EndsAlongWithTheLastBytes(t *testing.T) {
	const text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	const brokenOff = "data: broken off\n\n"
	for _, test := range []struct {
		name  string
		sent  string
		end   error
		reads []string
		cause Cause
	}{
		{"whole", text + "data: [DONE]\n\n", io.EOF, []string{text + "data: [DONE]\n\n"}, Completed},
		{"broken off", text, io.EOF, []string{text, brokenOff}, Truncated},
		{"failed", text + "data: half", io.ErrUnexpectedEOF, []string{text, brokenOff}, Truncated},
	} {
		t.Run(test.name, func(t *testing.T) {
			events, ends := 0, 0
			var cause Cause
			body := NewBody(&lastly{script{pieces: [][]byte{[]byte(test.sent)}}, test.end}, Options{
				ErrorEvent: func(error) []byte { events++; return []byte(brokenOff) },
				End:        func(r Result) { ends++; cause = r.Cause },
			})
			p := make([]byte, 1<<10)
			for i, want := range test.reads {
				n, err := body.Read(p)
				last := i == len(test.reads)-1
				if string(p[:n]) != want || (err == io.EOF) != last {
					t.Errorf("read %d is %q, %v; want %q", i, p[:n], err, want)
				}
			}
			n, err := body.Read(p)
			if n != 0 || err != io.EOF || ends != 1 || cause != test.cause || events != len(test.reads)-1 {
				t.Errorf("behind it %d bytes, %v; ended %d times by %v, %d events of it", n, err, ends, cause, events)
			}
		})
	}
}
