package federation

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestEncode: what is written down is read back, to the last bit.
func TestEncode(t *testing.T) {
	amount := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, 20_000, maxBooked, -maxBooked, math.MaxInt64, math.MinInt64})
	anyBook := func(t *rapid.T) (b book) {
		slot := rapid.Int64().Draw(t, "slot") / 2
		for range rapid.IntRange(0, 5).Draw(t, "slots") {
			b = append(b, Booked{slot, Amounts{amount.Draw(t, "tokens"), amount.Draw(t, "requests")}})
			slot += rapid.Int64Range(1, 300).Draw(t, "later")
		}
		return b
	}
	rapid.Check(t, func(t *rapid.T) {
		a := NewAccount(DefaultRules(), 1_000_000, Options{Incarnation: "i"})
		a.Booked, a.Gone = anyBook(t), anyBook(t)
		for _, name := range []string{"a", "b"} {
			m := &Member{Booked: anyBook(t)}
			for range rapid.IntRange(0, 3).Draw(t, "points") {
				m.Curve = append(m.Curve, Point{rapid.Float64().Draw(t, "level"), [axes]float64{rapid.Float64().Draw(t, "use"), math.Inf(1)}})
			}
			a.Members[name] = m
		}
		text, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text, a.Rules)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("- written, + read:\n%s", diff)
		}
	})
}

// TestDecodeShort: what is cut off is not taken for less.
func TestDecodeShort(t *testing.T) {
	text, _ := book{{1_000_000, Amounts{20_000, 200}}}.GobEncode()
	for n := 1; n < len(text); n++ {
		if err := new(book).GobDecode(text[:n]); err == nil {
			t.Errorf("%d bytes of the %d of a book are taken for one", n, len(text))
		}
	}
	text, _ = curve{{1, [axes]float64{2, 3}}}.GobEncode()
	for n := 1; n < len(text); n++ {
		if err := new(curve).GobDecode(text[:n]); err == nil {
			t.Errorf("%d bytes of the %d of a curve are taken for one", n, len(text))
		}
	}
}
