package parts

import (
	"os"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestDecode_FirstRelease: an account that the first release wrote goes on, and what others have used counts.
func TestDecode_FirstRelease(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/first.account"))(t)
	a := testkit.Must(Decode(text))(t)
	r := a.Beat(1_700_000_000_500, &Beat{Owner: "acme", Instance: "a", Seq: 2, Claims: []Claim{
		{Name: "minute", Kind: Rolling, Limit: 100, Used: 10, Part: 20, Want: 20},
		{Name: "month", Kind: Period, Limit: 1000, Ends: 1_800_000_000_000, Used: 30, Part: 40, Want: 40},
		{Name: "slots", Kind: Slots, Limit: 8, Used: 2, Part: 2, Want: 3, Tail: 4000},
	}})
	if len(r.Parts) != 3 {
		t.Fatalf("the answer is %+v", r)
	}
	for i, want := range []int64{10, 30, 2} {
		if got := r.Parts[i].Others; got != want {
			t.Errorf("others have used %d of limit %d, want %d", got, i, want)
		}
	}
}
