package http1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ordinary is a request whose head is written without net/http.
func ordinary() *http.Request {
	r := post(context.Background(), 3)
	r.Host = "" // that of the URL
	r.Header = http.Header{"User-Agent": {"sdk/1 (x; y)"}, "Content-Type": {"application/json"}, "X-A_b": {"", "1", "a \t b"}, "Authorization": {"Bearer k"}}
	return r
}

// checkHead compares the head that is written for a request with net/http's, line by line. Only the order of headers may differ.
func checkHead(t *testing.T, r *http.Request) (written bool) {
	t.Helper()
	s := &sender{buf: make([]byte, 0, senderBuffer)}
	if !s.gatherHead(r) {
		if len(s.buf) > 0 {
			t.Errorf("left behind: %q", s.buf)
		}
		return false
	}
	var all bytes.Buffer
	if err := r.Write(&all); err != nil {
		t.Fatalf("net/http refuses what was written: %v\n%q", err, s.buf)
	}
	want, _, ended := bytes.Cut(all.Bytes(), []byte("\r\n\r\n"))
	got, rest, gotEnded := bytes.Cut(s.buf, []byte("\r\n\r\n"))
	if !ended || !gotEnded || len(rest) > 0 {
		t.Errorf("the head does not end at its end: %q", s.buf)
	}
	if diff := cmp.Diff(linesOf(want), linesOf(got)); diff != "" {
		t.Errorf("net/http -, ours +:\n%s", diff)
	}
	return true
}

// linesOf are the lines of a head, the first one first and the others sorted.
func linesOf(head []byte) []string {
	lines := strings.Split(string(head), "\r\n")
	slices.Sort(lines[1:])
	return lines
}

// Heads are written as net/http writes them, or left to it.
func TestHeadsAreWrittenAsByNetHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *http.Request)
		left   bool
	}{
		"ordinary":           {func(*http.Request) {}, false},
		"another path":       {func(r *http.Request) { r.URL.Path = "/ä b" }, false},
		"no path":            {func(r *http.Request) { r.URL.Path = "" }, false},
		"opaque":             {func(r *http.Request) { r.URL.Opaque = "//other/a b" }, true},
		"query":              {func(r *http.Request) { r.URL.RawQuery = "a=b%20c" }, false},
		"query with a space": {func(r *http.Request) { r.URL.RawQuery = "a b" }, true},
		"query with a line":  {func(r *http.Request) { r.URL.RawQuery = "a\r\nEvil: 1" }, true},
		"no agent":           {func(r *http.Request) { r.Header["User-Agent"] = []string{""} }, false},
		"agent of net/http":  {func(r *http.Request) { delete(r.Header, "User-Agent") }, true},
		"two agents":         {func(r *http.Request) { r.Header["User-Agent"] = []string{"a", "b"} }, true},
		"port":               {func(r *http.Request) { r.URL.Host = "127.0.0.1:80" }, false},
		"other host":         {func(r *http.Request) { r.Host = "other" }, false},
		"bad host":           {func(r *http.Request) { r.Host = "a/b" }, true},
		"zone":               {func(r *http.Request) { r.URL.Host = "[fe80::1%25en0]:8080" }, true},
		"IDN":                {func(r *http.Request) { r.URL.Host = "ä" }, true},
		"GET":                {func(r *http.Request) { r.Method = http.MethodGet }, true},
		"no length":          {func(r *http.Request) { r.ContentLength = -1 }, true},
		"close":              {func(r *http.Request) { r.Close = true }, true},
		"chunked":            {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, true},
		"trailer":            {func(r *http.Request) { r.Trailer = http.Header{"A": nil} }, true},
		"length in headers":  {func(r *http.Request) { r.Header["Content-Length"] = []string{"1"} }, true},
		"coding in headers":  {func(r *http.Request) { r.Header["Transfer-Encoding"] = []string{"chunked"} }, true},
		"host in headers":    {func(r *http.Request) { r.Header["Host"] = []string{"evil"} }, true},
		"line in a value":    {func(r *http.Request) { r.Header["A"] = []string{"b\r\nEvil: 1"} }, true},
		"line in a name":     {func(r *http.Request) { r.Header["A: b\r\nC"] = []string{"d"} }, true},
		"spaces around":      {func(r *http.Request) { r.Header["A"] = []string{" b "} }, true},
		"no name":            {func(r *http.Request) { r.Header[""] = []string{"b"} }, true},
		"other bytes":        {func(r *http.Request) { r.Header["A"] = []string{"ä\x00\x7f"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := ordinary()
			c.change(r)
			if written := checkHead(t, r); written == c.left {
				t.Errorf("written %v", written)
			}
		})
	}
}

// FuzzHeads compares with net/http.
func FuzzHeads(f *testing.F) {
	f.Add("host:80", "/v1/chat", "", "Accept", "*/*")
	f.Add("host", "/ä", "a=b", "content-length", "4\r\n")
	f.Fuzz(func(t *testing.T, host, path, query, name, value string) {
		r := ordinary()
		r.URL.Host = host
		r.URL.Path = path
		r.URL.RawQuery = query
		r.Header[name] = []string{value}
		checkHead(t, r)
	})
}

// A trace hears of a plain request what it hears of others, and a witness what a trace hears.
func TestPlainRequestsAreTraced(t *testing.T) {
	h := serve(t, answering(ok))
	if !isPlain(ordinary()) {
		t.Fatal("not plain")
	}
	for _, name := range []string{"trace", "witness"} {
		tr := h.transport(t)
		w := &hearing{Context: t.Context()}
		ctx := context.Context(w)
		if name == "trace" {
			ctx = httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: w.GotConn, WroteHeaders: w.WroteHeaders, WroteRequest: w.WroteRequest})
		}
		_ = call(t, tr, ordinary().WithContext(ctx))
		short := ordinary().WithContext(ctx)
		short.ContentLength = 4
		if _, err := tr.RoundTrip(short); err == nil {
			t.Error("a body that is too short was sent")
		}
		want := []string{"new", "headers", "request", "kept", "headers", "http1: the body of a request has 3 bytes, not 4", "request"}
		heard := slices.DeleteFunc(w.heard, func(what string) bool { return what == "waits" })
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("the %s: %s", name, diff)
		}
	}
}

// A witness hears that an answer is waited for before it has come, however the request is sent.
//
// Seen to fail with: Waits behind the answer.
func TestWitnessHearsOfTheWait(t *testing.T) {
	for _, size := range []int{4, 2 * mostInline} {
		waited := make(chan struct{})
		h := serve(t, func(conn net.Conn, _ int64) {
			if err := readRequest(bufio.NewReader(conn)); err != nil {
				t.Error(err)
			}
			select {
			case <-waited:
			case <-time.After(10 * time.Second):
				t.Error("nobody waits")
			}
			_, _ = io.WriteString(conn, ok)
		})
		ctx := &toldOfTheWait{hearing{Context: t.Context()}, waited}
		if got := call(t, h.transport(t), post(ctx, size)); got != "ok" {
			t.Errorf("a body of %d bytes: got %q", size, got)
		}
	}
}

// toldOfTheWait is a Witness.
type toldOfTheWait struct {
	hearing
	told chan struct{}
}

// Waits implements Witness.
func (w *toldOfTheWait) Waits() { close(w.told) }

// HeadWithin implements Witness.
func (w *toldOfTheWait) HeadWithin() time.Duration { return 0 }

// hearing is a Witness.
type hearing struct {
	context.Context
	heard []string
}

// GotConn implements Witness.
func (h *hearing) GotConn(info httptrace.GotConnInfo) {
	h.heard = append(h.heard, map[bool]string{false: "new", true: "kept"}[info.Reused])
}

// WroteHeaders implements Witness.
func (h *hearing) WroteHeaders() { h.heard = append(h.heard, "headers") }

// WroteRequest implements Witness.
func (h *hearing) WroteRequest(info httptrace.WroteRequestInfo) {
	if info.Err != nil {
		h.heard = append(h.heard, info.Err.Error())
	}
	h.heard = append(h.heard, "request")
}

// Waits implements Witness.
func (h *hearing) Waits() { h.heard = append(h.heard, "waits") }

// HeadWithin implements Witness.
func (h *hearing) HeadWithin() time.Duration { return 0 }

func TestCutHeader(t *testing.T) {
	type cut struct{ Name, Value, Rest string }
	for lines, want := range map[string]cut{
		"Accept: */*":                         {"Accept", "*/*", ""},
		"Accept: */*\r\nA: b\r\nC: d":         {"Accept", "*/*", "A: b\r\nC: d"},
		"content-type: text/plain\r\nA: b":    {"Content-Type", "text/plain", "A: b"},
		"X-STAINLESS-OS: Linux":               {"X-Stainless-Os", "Linux", ""},
		"X-1a_B: c":                           {"X-1a_b", "c", ""},
		"A: b c":                              {"A", "b c", ""},
		"A: b: c":                             {"A", "b: c", ""},
		"Date: Sat, 28 Nov 2026 16:00:00 GMT": {"Date", "Sat, 28 Nov 2026 16:00:00 GMT", ""},
	} {
		name, value, rest, ok := CutHeader(lines)
		if diff := cmp.Diff(want, cut{name, value, rest}); !ok || diff != "" {
			t.Errorf("%q is plain: %t: -want +got:\n%s", lines, ok, diff)
		}
	}
	for _, lines := range []string{
		"", "A", "A:", "A: ", "A:b", ": b", "A : b", " A: b", "A:  b", "A: b ", "A: b\tc", "A: b\x00", "A: b\x7f", "A: ä", "Ä: b", "A.B: c",
		"A: b\nC: d", "A: b\rC: d", "A: b\r", "A: b \r\nC: d", "A: \r\nC: d", "\r\nA: b",
	} {
		if name, value, _, ok := CutHeader(lines); ok {
			t.Errorf("%q is plain: %q, %q", lines, name, value)
		}
	}
}

func TestPlainHeaders(t *testing.T) {
	want := http.Header{"Connection": {"keep-alive"}, "Transfer-Encoding": {"chunked"}, "A": {"b"}}
	if diff := cmp.Diff(want, plainHeaders("connection: keep-alive\r\nTransfer-Encoding: chunked\r\nA: b")); diff != "" {
		t.Error("-want +got:\n" + diff)
	}
	for _, lines := range []string{
		"A: b\r\na: c", "Connection: close", "Connection: keep-alive\nA: b", "Connection: keep-alive\r\nA:b", "Transfer-Encoding: gzip, chunked",
		"Transfer-Encoding: chunked\n", "Trailer: A", "Pragma: no-cache",
	} {
		if h := plainHeaders(lines); h != nil {
			t.Errorf("%q is plain: %v", lines, h)
		}
	}
}
