package rateheaders

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// A limit is shown as it is, however many others were shown, and whatever is added to the headers of an answer.
func TestLimitValues(t *testing.T) {
	const name = "X-Ratelimit-Limit-Tokens"
	for n := range int64(20 * len(limits)) {
		h := http.Header{name: limitValues(n)}
		h.Add(name, "more")
		want := []string{strconv.FormatInt(n, 10)}
		if got := limitValues(n); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// A limit that was just shown costs no memory.
func TestLimitValues_Allocates(t *testing.T) {
	if n := testkit.Allocs(t, 100, func() { limitValues(1_000_000_000) }); n != 0 {
		t.Errorf("%d allocations", n)
	}
}
