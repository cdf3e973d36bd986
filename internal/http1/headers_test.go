package http1

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
