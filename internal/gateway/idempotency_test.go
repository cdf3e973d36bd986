package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/route"
)

// Two tries of one call ask the same, also where each draws the boundary of its form
// anew; all else is another call.
func TestAsks(t *testing.T) {
	ask := func(method, target, contentType, body string) uint64 {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		c := &call{r: r, body: []byte(body)}
		c.at = route.Find(r)
		c.route = c.at.Route
		if c.route.Body == dialect.Form {
			if f := c.readHead(); f != nil {
				t.Fatal(f.Message)
			}
		}
		return c.asks()
	}
	form := func(boundary, text string) uint64 {
		return ask("POST", "/v1/audio/transcriptions", "multipart/form-data; boundary="+boundary,
			"--"+boundary+"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+text+"\r\n--"+boundary+"--\r\n")
	}
	first := ask("POST", "/v1/embeddings", "", `{"a":1}`)
	if ask("POST", "/embeddings", "", `{"a":1}`) != first || form("x", "m") != form("yy", "m") {
		t.Error("a second try asks for something else")
	}
	for i, other := range []uint64{
		ask("POST", "/v1/embeddings", "", `{"a":2}`),
		ask("POST", "/v1/embeddings?a=1", "", `{"a":1}`),
		ask("POST", "/v1/moderations", "", `{"a":1}`),
		ask("POST", "/v1/embeddings", "", ``),
	} {
		if other == first {
			t.Errorf("another call, %d, asks the same", i)
		}
	}
	if form("x", "m") == form("x", "n") {
		t.Error("another form asks the same")
	}
}
