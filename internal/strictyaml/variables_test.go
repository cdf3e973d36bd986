package strictyaml

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "x", "EMPTY": "", "REF": "${A}"}
	for _, c := range []struct{ text, want, fails string }{
		{text: "plain", want: "plain"},
		{text: "${A}-${A}", want: "x-x"},
		{text: "${REF}", want: "${A}"}, // not expanded again
		{text: "${NO:-d:-e}", want: "d:-e"},
		{text: "${NO:-}", want: ""},
		{text: "${EMPTY}", want: ""},
		{text: "${EMPTY:-d}", want: "d"},
		{text: "$$${A}$$", want: "$x$"},
		{text: "$${A}", want: "${A}"},
		{text: "$A $ ${A}$", want: "$A $ x$"},
		{text: "${NO}", fails: "NO is not set"},
		{text: "${A", fails: "without }"},
		{text: "${A:d}", fails: "not the name"},
		{text: "${NO:-${A}}", fails: "inside the default"},
	} {
		got, err := expand(c.text, env)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("expand(%q) = %q, %v; want %q, error %q", c.text, got, err, c.want, c.fails)
		}
	}
}
