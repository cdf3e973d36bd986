package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
)

// The ways a stream can end.
const (
	toTheEnd     = iota // the last chunk
	clientGone          // after a random number of bytes
	clientEarly         // after a random time, perhaps before the first byte
	upstreamCut         // the model server hangs up
	upstreamSays        // an error event
	upstreamIdle        // silence
	panicking           // a handler panics while it copies
	drained             // the gateway shuts down
	numEndings
)

// faults are the model server's hooks by way of ending.
var faults = map[int]string{upstreamCut: "hangup_after", upstreamSays: "error_after", upstreamIdle: "stall_after"}

// variant is where a stream tells its usage, and whether its client asks for it.
type variant struct {
	usage string
	asks  bool
}

func (v variant) model() string { return fmt.Sprintf("%s-%v", v.usage, v.asks) }

// dialect is a route whose answers stream in a way of their own.
type dialect struct {
	name, path string
	ask        string // what it calls the prompt and the bound
	last       string // in the last event of a whole answer
	variants   []variant
}

// question is long enough for a prompt to be told from its JSON.
var question = strings.Repeat("How long is a piece of string? ", 12)

var dialects = []dialect{
	{"chat", "/chat/completions", `"messages":[{"role":"user","content":"` + question + `"}],"max_tokens":300`, "data: [DONE]", chunked},
	{"completions", "/completions", `"prompt":"` + question + `","max_tokens":300`, "data: [DONE]", chunked},
	{"responses", "/responses", `"input":"` + question + `","max_output_tokens":300`, `"type":"response.completed"`, []variant{{mock.UsageFinish, false}, {mock.UsageAbsent, false}}},
	{"messages", "/messages", `"messages":[{"role":"user","content":"` + question + `"}],"max_tokens":300`, `"type":"message_stop"`, []variant{{mock.UsageFinish, false}, {mock.UsageEach, false}, {mock.UsageAbsent, false}}},
}

// chunked are the variants of routes that have the extra usage chunk.
var chunked = func() (all []variant) {
	for _, usage := range []string{mock.UsageChunk, mock.UsageFinish, mock.UsageEach, mock.UsageAbsent} {
		all = append(all, variant{usage, false}, variant{usage, true})
	}
	return all
}()

// body is a request for a stream of 250 tokens which ends in its way after so many.
// All of a variant weigh the same: they name every fault, the model server heeds the
// last one, and one beyond the answer's end does not happen.
func (d dialect) body(v variant, way, after int) string { return d.bodyOf(v.model(), v, way, after) }

func (d dialect) bodyOf(model string, v variant, way, after int) string {
	hooks := ""
	for _, w := range []int{upstreamCut, upstreamSays, upstreamIdle} {
		if w != way {
			hooks += fmt.Sprintf(`,"%s":900`, faults[w])
		}
	}
	if faults[way] != "" {
		hooks += fmt.Sprintf(`,"%s":%03d`, faults[way], after)
	}
	options := ""
	if v.asks {
		options = `,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":"%s",%s,"stream":true%s,"mock":{"output_tokens":250,"usage":"%s"%s}}`, model, d.ask, options, v.usage, hooks)
}

// checkEnd looks at what the client saw of an end.
func (st *storm) checkEnd(v variant, way, status int, text string, err error) {
	st.T.Helper()
	last := strings.TrimRight(text, "\n")
	last = last[strings.LastIndex(last, "\n\n")+1:]
	whole := err == nil && strings.Contains(last, st.d.last)
	broken := err == nil && !whole && strings.Contains(last, `"error"`)
	ok := true
	switch way {
	case toTheEnd:
		ok = whole
	case upstreamCut, upstreamSays, upstreamIdle: // an error event and a clean close
		ok = broken
	case panicking:
		ok = err != nil && !strings.Contains(last, st.d.last)
	case clientEarly:
		ok = err == nil || errors.Is(err, context.Canceled)
	case drained:
		refused := status == http.StatusServiceUnavailable && strings.Contains(text, "shutting down")
		ok = whole || refused || broken && strings.Contains(last, "shutting down")
	}
	if !ok {
		st.T.Errorf("%s, way %d: status %d, %v, ends %q", v.model(), way, status, err, last)
	}
	if v.usage == mock.UsageChunk && !v.asks && strings.Contains(text, `"usage":{`) {
		st.T.Errorf("%s shows a client the usage that it did not ask for", v.model())
	}
	if v.usage == mock.UsageChunk && v.asks && whole && !strings.Contains(text, `"usage":{`) {
		st.T.Errorf("%s withholds the usage that a client asked for", v.model())
	}
}

// panicBody is a body whose reader panics after some reads.
type panicBody struct {
	io.ReadCloser
	left int
}

func (b *panicBody) Read(p []byte) (int, error) {
	b.left--
	if b.left < 0 {
		panic("a bug in the handler")
	}
	return b.ReadCloser.Read(p)
}

// panicOn makes answers to calls that ask for it in a header panic.
func panicOn(next http.RoundTripper) http.RoundTripper {
	return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Header.Get("X-Title") == "panic" {
			resp.Body = &panicBody{resp.Body, 20}
		}
		return resp, err
	})
}
