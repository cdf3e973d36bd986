package parts

import (
	"reflect"
	"testing"
)

// TestNotes: each process hears the last note of all others that are heard of, and how old it is.
func TestNotes(t *testing.T) {
	a := &Account{}
	beat := func(now int64, instance string, seq int64, note string) []Note {
		c := claim(Slots, 0, 0, 1)
		c.Note = note
		return tell(a, now, instance, seq, c)[0].Notes
	}
	for _, step := range []struct {
		now      int64
		instance string
		seq      int64
		note     string
		heard    []Note
	}{
		{1000, "a", 1, "one", nil},
		{1400, "b", 1, "", []Note{{400, "one"}}},
		{1500, "a", 2, "two", nil}, // b has none
		{1600, "c", 1, "three", []Note{{100, "two"}}},
		{1700, "b", 2, "four", []Note{{200, "two"}, {100, "three"}}},
		{4050, "c", 2, "five", []Note{{2350, "four"}}}, // a is silent
	} {
		if got := beat(step.now, step.instance, step.seq, step.note); !reflect.DeepEqual(got, step.heard) {
			t.Errorf("at %d %s hears %v, want %v", step.now, step.instance, got, step.heard)
		}
	}
}
