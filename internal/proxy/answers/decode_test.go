package answers

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func answered(status int, encoding, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{"Content-Encoding": {encoding}, "Content-Length": {"9"}, "Etag": {"x"}},
	}
}

func TestDecode(t *testing.T) {
	text := strings.Repeat("hello ", 100_000) // a looping model: more than requests may become
	for _, encoding := range []string{"gzip", "identity, GZIP", "x-gzip"} {
		resp := answered(200, encoding, testkit.Gzip(text))
		Decode(resp)
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != text || len(resp.Header) != 1 || resp.ContentLength != -1 {
			t.Errorf("%s: %d bytes, %v, %v", encoding, len(got), err, resp.Header)
		}
	}
	for name, c := range map[string]struct {
		resp *http.Response
		want string
	}{
		"zstd":          {answered(429, "zstd", testkit.Zstd("full")), "full"},
		"no body":       {answered(204, "gzip", ""), ""},
		"no body, zstd": {answered(200, "zstd", ""), ""},
		"not encoded":   {answered(200, "", "x"), "x"},
		"identity":      {answered(200, "identity", "x"), "x"},
		"not known":     {answered(200, "br", "x"), "x"},
		"twice":         {answered(200, "gzip, gzip", "x"), "x"},
		"a part":        {answered(206, "gzip", "x"), "x"},
	} {
		before := c.resp.Header.Get("Content-Encoding")
		Decode(c.resp)
		if got, err := io.ReadAll(c.resp.Body); err != nil || string(got) != c.want {
			t.Errorf("%s: read as %q, %v", name, got, err)
		}
		if after := c.resp.Header.Get("Content-Encoding"); after != "" && after != before {
			t.Errorf("%s: labelled as %q", name, after)
		}
	}
	Decode(&http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}})
}
