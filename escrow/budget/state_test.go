package budget

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// A split that was saved, written down as JSON and as gob, and restored at any
// time answers what one answers that was never stopped. New members may be
// added before or after Restore.
//
// Seen failing with: From or Idle left out of the state; the use of members gone
// not counted as such; who asked in the ended period forgotten; positions not
// placed anew; the clock put back.
func TestRestoreContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, rapid.Bool().Draw(t, "nodecay"))
		w.live(t, rapid.IntRange(0, 999).Draw(t, "until"))
		down := rapid.SampledFrom([]time.Duration{0, -time.Hour, time.Minute, 10 * time.Hour, 70 * 24 * time.Hour}).Draw(t, "down")
		now := w.now.Add(down)
		ended := !now.Before(w.ResetAt(w.now))
		for i := range w.ids {
			// Who is gone when the period ends is forgotten, unless it is known
			// from the state only.
			if !ended && rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
				w.Remove(w.now, w.ids[i])
			}
		}
		st := w.State(w.now)
		back := NewSplit(w.cfg)

		ids := make([]MemberID, len(w.ids))
		// Who asked in a period that ended is known, but not who was silent: to
		// be known as absent a member must be added before.
		first := ended || rapid.Bool().Draw(t, "members first")
		add := func() {
			for i := range ids {
				if !w.members[w.ids[i].slot].gone {
					ids[i] = back.Add(now, fmt.Sprint(i), w.weights[i])
				}
			}
		}
		if first {
			add()
		}
		back.Restore(now, overWire(t, st))
		w.advance(now)
		if !first {
			add()
		}
		testkit.OK(t, back.Check())
		if diff := cmp.Diff(w.State(now), back.State(now)); diff != "" {
			t.Fatalf("never stopped -, restored +\n%s", diff)
		}
		// Positions are as of their members' last word, or of Restore; and who says
		// a word is present.
		for i := range ids {
			w.Split.Hold(now, w.ids[i], 0)
			if !first || ended {
				back.Hold(now, ids[i], 0)
			}
		}
		for i := range ids {
			c := rapid.Int64Range(0, w.limit).Draw(t, "call")
			_, want := w.Split.Hold(now, w.ids[i], c)
			_, got := back.Hold(now, ids[i], c)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("member %d, call of %d: never stopped -, restored +\n%s", i, c, diff)
			}
		}
	})
}

func overWire(t *rapid.T, st SplitState) SplitState {
	var fromJSON, fromGob SplitState
	text, err := json.Marshal(st)
	if err == nil {
		err = json.Unmarshal(text, &fromJSON)
	}
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	err = gob.NewEncoder(&buf).Encode(st)
	if err == nil {
		err = gob.NewDecoder(&buf).Decode(&fromGob)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromGob); diff != "" {
		t.Fatalf("JSON -, gob +\n%s", diff)
	}
	return fromJSON
}

func TestCapRestore(t *testing.T) {
	noon := at("2026-05-05 12:00")
	b := NewCap(100, Day, nil)
	b.Hold(noon, 70) // in flight when the process dies
	st := b.State(noon)
	for _, tc := range []struct {
		now    string
		period Period
		used   int64
		resets string
		what   string
	}{
		{"2026-05-05 13:00", Day, 70, "2026-05-06 00:00", "the same day"},
		{"2026-05-06 00:00", Day, 0, "2026-05-07 00:00", "the day has ended"},
		{"2026-05-04 20:00", Day, 70, "2026-05-06 00:00", "the clock was put back"},
		{"2026-05-05 13:00", Month, 70, "2026-06-01 00:00", "now a month: the day is a part of it"},
		{"2026-05-05 13:00", Hour, 0, "2026-05-05 14:00", "now an hour: the day is not"},
	} {
		b := NewCap(100, tc.period, nil)
		b.Restore(at(tc.now), st)
		if got := b.Used(at(tc.now)); got != tc.used {
			t.Errorf("%s: %d is used, want %d", tc.what, got, tc.used)
		}
		if got := b.ResetAt(at(tc.now)); !got.Equal(at(tc.resets)) {
			t.Errorf("%s: resets at %v, want %s", tc.what, got, tc.resets)
		}
	}
}

// Whatever a file says, the books hold, and what they say is restored again.
//
// Seen failing with: a name that is there twice; the use of unknown members not
// counted as gone.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"Start":"2026-03-10T00:00:00Z","From":"2026-03-10T03:00:00Z","Gone":3,"Members":[{"Name":"a","Asked":true,"Used":40,"Idle":5000000},{"Name":"b"}]}`), int64(0))
	f.Add([]byte(`{"Start":"2026-03-10T00:00:00Z","Members":[{"Name":"a","Asked":true,"Used":9223372036854775807},{"Name":"a","Asked":true,"Used":-1},{"Name":"x","Asked":true,"Used":9223372036854775807,"Idle":-1}]}`), int64(90_000))
	f.Fuzz(func(t *testing.T, text []byte, seconds int64) {
		var st SplitState
		if json.Unmarshal(text, &st) != nil || later(st.Start, st.At).Year() > 2200 {
			t.Skip()
		}
		now := t0.Add(time.Duration(seconds%(400*86400)) * time.Second)
		s := NewSplit(Config{Limit: 1000, Period: Day})
		a := s.Add(now, "a", 1)
		s.Restore(now, st)
		s.Add(now, "b", 2)
		for range 3 {
			testkit.OK(t, s.Check())
			s.Hold(now, a, 7)
			now = now.Add(time.Hour)
		}
		saved := s.State(now)
		again := NewSplit(Config{Limit: 1000, Period: Day})
		again.Restore(now, saved)
		if diff := cmp.Diff(saved, again.State(now)); diff != "" {
			t.Fatalf("saved -, restored +\n%s", diff)
		}
	})
}
