package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// A gateway is missed that is not heard of any more: not one that said that it stops, was replaced, or has been away for long, and
// nobody while this gateway itself does not see the store.
func TestMissing(t *testing.T) {
	began := time.Now()
	// node was heard of at a time, in seconds since the beginning.
	node := func(name, address string, at int64) federation.NodeView {
		return federation.NodeView{Name: name, Address: address, Seen: 1_000_000 + at*1000}
	}
	for name, c := range map[string]struct {
		nodes []federation.NodeView // as of the first look, a second after the beginning
		later []federation.NodeView // as of the second look
		at    int64                 // of the second look, in seconds; 0 is none
		want  string
	}{
		"all beat":             {[]federation.NodeView{node("one", "a:1", 1), node("two", "b:1", 1)}, []federation.NodeView{node("one", "a:1", 60), node("two", "b:1", 59)}, 60, ""},
		"killed":               {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 11, "two"},
		"killed a moment ago":  {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 10, ""},
		"forgotten by now":     {[]federation.NodeView{node("two", "b:1", 1)}, nil, 300, "two"},
		"without an address":   {[]federation.NodeView{node("two", "", 1), node("three", "", 1)}, []federation.NodeView{node("three", "", 30)}, 30, "two"},
		"long ago":             {[]federation.NodeView{node("two", "b:1", 1)}, nil, 602, ""},
		"stopped":              {[]federation.NodeView{node("two", "leaving", 1)}, nil, 60, ""},
		"another at its place": {[]federation.NodeView{node("two-77", "b:1", 1)}, []federation.NodeView{node("two-88", "b:1", 59)}, 60, ""},
		"back":                 {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 59)}, 60, ""},
		"this one":             {[]federation.NodeView{node("one", "a:1", 1)}, []federation.NodeView{node("one", "a:1", 1)}, 60, ""},
		"nothing is seen":      {[]federation.NodeView{node("two", "b:1", 1)}, nil, 0, ""},
	} {
		a := absentees{last: map[string]heard{}}
		a.look(began.Add(time.Second), "one", federation.View{Now: 1_001_000, Nodes: c.nodes})
		if c.at > 0 {
			a.look(began.Add(time.Duration(c.at)*time.Second), "one", federation.View{Now: 1_000_000 + c.at*1000, Nodes: c.later})
		}
		var got []string
		for _, m := range a.missing() {
			got = append(got, strings.Fields(m.Message)[1])
			if !m.Since.Equal(began.Add(time.Second)) {
				t.Errorf("%s: since %v", name, m.Since.Sub(began))
			}
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q are missed, want %q", name, got, c.want)
		}
	}
}
