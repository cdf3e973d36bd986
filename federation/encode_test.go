package federation

import (
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/testkit"
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
		text := testkit.Must(a.Encode())(t)
		got := testkit.Must(Decode(text, a.Rules))(t)
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

// TestDecode_FirstRelease: an account that the first release wrote goes on, and what its nodes have used counts.
func TestDecode_FirstRelease(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/first.account"))(t)
	a := testkit.Must(Decode(text, DefaultRules()))(t)
	r := a.Beat(1_700_000_000_500, "first", 2, &Beat{
		Node: "a", Instance: "a", Seq: 3, Acked: 2, Epoch: a.Epoch, Sent: a.Now, Limits: Amounts{600_000, 600}, Held: Amounts{300, 1}, Format: Format,
	})
	if r.Status != Granted || r.Used != (Amounts{14_600, 16}) || r.Format != 1 {
		t.Errorf("%s, used %v, format %d", r.Status, r.Used, r.Format)
	}
}
