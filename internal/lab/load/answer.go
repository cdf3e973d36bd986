package load

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/streaming"
)

const (
	// readSize is the size of one read from the connection.
	readSize = 16 << 10
	// errorSize is the most that is read of an error's body.
	errorSize = 64 << 10
	// mostGaps is the number of parts for which memory is allocated beforehand.
	mostGaps = 4096
)

// attempt is one sending of a call, with its answer.
type attempt struct {
	sent, headers, first, end time.Duration

	status   int
	outcome  Outcome
	kind     string // of a refusal or failure
	example  string
	timedOut bool
	hint     time.Duration
	retry    retryWord
	usage    streaming.Usage
	reported bool
	gaps     []time.Duration
}

func (a *attempt) fail(kind, example string) {
	a.outcome = Failed
	a.kind = kind
	a.example = example
}

// errBroken is the error of a call that the plan breaks off.
var errBroken = errors.New("load: broken off, as planned")

var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// reader reads one event stream.
type reader struct {
	a     *attempt
	c     *Call
	scan  streaming.Scanner
	meter streaming.Meter
	last  time.Duration // time of the last part
	ended bool          // the stream had its proper end
}

// stream reads an event stream to its end, or to the part after which the plan breaks it off. now
// is the time since the start of the run.
func (a *attempt) stream(body io.Reader, c *Call, now func() time.Duration) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	r := reader{a: a, c: c}
	a.gaps = make([]time.Duration, 0, min(c.Output, mostGaps))
	defer func() { a.usage, a.reported = r.meter.Usage() }()
	for {
		n, err := body.Read(*buf)
		at := now()
		r.scan.Feed((*buf)[:n])
		if stop, cause := r.events(at, r.scan.Next); stop {
			return cause
		}
		if err == io.EOF { // the last event may lack its blank line
			if stop, cause := r.events(at, r.scan.Flush); stop {
				return cause
			}
		}
		if err != nil {
			return a.streamEnd(err, r.ended, at)
		}
	}
}

// events reads the events that have arrived, and reports whether reading stops.
func (r *reader) events(at time.Duration, next func() (streaming.Event, bool)) (stop bool, cause error) {
	for {
		ev, ok := next()
		if !ok {
			return false, nil
		}
		switch r.meter.Observe(ev.Name, ev.Data) {
		case streaming.Delta:
			r.delta(at)
			if r.c.BreakAfter > 0 && r.meter.Deltas() >= r.c.BreakAfter {
				return true, errBroken
			}
		case streaming.Failure:
			r.a.end = at
			r.a.fail("stream: error event", string(ev.Data))
			return true, nil
		case streaming.Final:
			r.ended = true
			r.a.end = at
		}
	}
}

func (r *reader) delta(at time.Duration) {
	if r.a.first == never {
		r.a.first = at
	} else {
		r.a.gaps = append(r.a.gaps, at-r.last)
	}
	r.last = at
}

// streamEnd judges the end of the connection.
func (a *attempt) streamEnd(err error, ended bool, at time.Duration) error {
	switch {
	case ended:
		a.outcome = OK
		return nil
	case err == io.EOF:
		a.end = at
		a.fail("stream: no end", "the stream ended without [DONE] or another terminal event")
		return nil
	}
	return err
}

// whole reads a plain answer. If it is cut off, HTTP reports an error.
func (a *attempt) whole(body io.ReadCloser, now func() time.Duration) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var res streaming.Result
	answer := streaming.NewWhole(body, streaming.WholeOptions{End: func(r streaming.Result) { res = r }})
	_, err := io.CopyBuffer(onlyWriter{}, answer, *buf)
	a.end = now()
	if err != nil {
		return err
	}
	a.usage = res.Usage
	a.reported = res.Reported
	a.outcome = OK
	return nil
}

// onlyWriter discards its input. It has no ReadFrom, which would bypass the buffer.
type onlyWriter struct{}

func (onlyWriter) Write(p []byte) (int, error) { return len(p), nil }

// refusal reads an answer with an error.
func (a *attempt) refusal(resp *http.Response, now func() time.Duration) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorSize))
	a.end = now()
	if err != nil {
		return err
	}
	a.kind = strconv.Itoa(resp.StatusCode)
	// The type names the limit; some errors have only a code.
	for _, path := range []string{"error.type", "error.code"} {
		if word := gjson.GetBytes(body, path); word.Type == gjson.String && word.Str != "" {
			a.kind += " " + cut(word.Str, 40)
			break
		}
	}
	a.hint = hintOf(resp.Header)
	a.retry = wordOf(resp.Header)
	a.outcome = Failed
	a.example = cut(string(body), 300)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusPaymentRequired: // the last of a spent budget
		a.outcome = Refused
	}
	return nil
}

// isStream reports whether the content type is that of an event stream.
func isStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
