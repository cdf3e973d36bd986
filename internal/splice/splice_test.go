package splice

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCopy_InPlace(t *testing.T) {
	body := "0123456789"
	for _, tc := range []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"none", nil, "0123456789"},
		{"insertion", []Edit{{1, 1, "ab"}}, "0ab123456789"},
		{"replacement", []Edit{{2, 5, "x"}}, "01x56789"},
		{"removal", []Edit{{0, 10, ""}}, ""},
		{"out of order", []Edit{{8, 9, "b"}, {0, 1, "a"}}, "a1234567b9"},
		{"two at one place keep their order", []Edit{{5, 5, "a"}, {5, 5, "b"}}, "01234ab56789"},
		{"at the ends", []Edit{{10, 10, ">"}, {0, 0, "<"}}, "<0123456789>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := []byte(body)
			if got := string(Copy(in, tc.edits)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if string(in) != body {
				t.Errorf("the body itself was changed to %q", in)
			}
			roomy := append(make([]byte, 0, 40), body...)
			got := InPlace(roomy, tc.edits)
			if string(got) != tc.want || cap(got) > 0 && &got[:1][0] != &roomy[0] {
				t.Errorf("in place: got %q, want %q; the buffer is the same: %v", got, tc.want, &got[:1][0] == &roomy[0])
			}
			if got := string(InPlace([]byte(body)[:10:10], tc.edits)); got != tc.want {
				t.Errorf("without room: got %q, want %q", got, tc.want)
			}
		})
	}
}

// In place, edits do what they do in a copy.
func TestInPlaceIsCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(strings.Repeat("0123456789", 4)[:rapid.IntRange(0, 40).Draw(t, "length")])
		var edits []Edit
		for at := 0; rapid.Bool().Draw(t, "another"); {
			start := rapid.IntRange(at, len(body)).Draw(t, "start")
			at = rapid.IntRange(start, len(body)).Draw(t, "end")
			edits = append(edits, Edit{start, at, rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 9, -1).Draw(t, "text")})
		}
		want := string(Copy(body, slices.Clone(edits)))
		roomy := append(make([]byte, 0, 1000), body...)
		if got := string(InPlace(roomy, edits)); got != want {
			t.Fatalf("%v: got %q, want %q", edits, got, want)
		}
	})
}

// A place moves with the bytes around it.
func TestMoved(t *testing.T) {
	body := []byte(`{"a":1,"model":"m","b":2}`)
	edits := []Edit{{1, 1, `"x":1,`}, {5, 6, "12345"}, {23, 24, "7"}}
	at := Moved(edits, 15)
	if got := string(Copy(body, edits)[at : at+3]); got != `"m"` {
		t.Errorf("it is at %d, where %s is", at, got)
	}
	if at := Moved(edits, 1); at != 7 {
		t.Errorf("what is inserted last at 1 stands at %d, want 7", at)
	}
}
