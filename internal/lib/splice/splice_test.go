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
			for _, start := range []int{0, 3, 20} {
				roomy := append(make([]byte, start, start+40), body...)
				got := InPlace(roomy, start, tc.edits)
				if string(got) != tc.want || !within(got, roomy) {
					t.Errorf("in place behind %d bytes: got %q, want %q; the buffer is the same: %v", start, got, tc.want, within(got, roomy))
				}
			}
			if got := string(InPlace([]byte(body)[:10:10], 0, tc.edits)); got != tc.want {
				t.Errorf("without room: got %q, want %q", got, tc.want)
			}
		})
	}
}

// within reports whether a part lies in the memory.
func within(part, memory []byte) bool {
	memory = memory[:cap(memory)]
	return cap(part) <= cap(memory) && &part[:cap(part)][cap(part)-1] == &memory[len(memory)-1]
}

// Of a long body only the few bytes move that are before the edit.
//
// Seen to fail with: 0 for longest.
func TestInPlaceLeavesTheLongestPart(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit Edit
	}{
		{"longer", Edit{5, 5, "and more"}},
		{"shorter", Edit{5, 9, "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const start, size = 16, 1000
			memory := make([]byte, start+size, start+size+16)
			got := InPlace(memory, start, []Edit{tc.edit})
			if len(got) != size+tc.edit.growth() || &got[len(got)-1] != &memory[len(memory)-1] {
				t.Errorf("%d bytes; the last one has not moved: %v", len(got), &got[len(got)-1] == &memory[len(memory)-1])
			}
		})
	}
}

// In place, edits do what they do in a copy, whatever room there is.
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
		before := rapid.IntRange(0, 30).Draw(t, "room before")
		behind := rapid.IntRange(0, 30).Draw(t, "room behind")
		roomy := append(make([]byte, before, before+len(body)+behind), body...)
		if got := string(InPlace(roomy, before, edits)); got != want {
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
