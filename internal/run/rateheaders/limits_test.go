package rateheaders

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
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

// Clients give up at a minute, or do not heed it, so no refusal tells as much that is not final.
func TestRetry(t *testing.T) {
	for _, tt := range []struct {
		in                time.Duration
		final             bool
		seconds, ms, turn string
	}{
		{0, false, "", "", ""},
		{time.Nanosecond, false, "1", "1", ""},
		{1500*time.Millisecond + 1, false, "2", "1501", ""},
		{59 * time.Second, false, "59", "59000", ""},
		{59_998_001 * time.Microsecond, false, "60", "59999", ""},
		{59_999_001 * time.Microsecond, false, "60", "59999", "60000"},
		{60_018 * time.Millisecond, false, "60", "59999", "60018"},
		{3 * time.Hour, false, "60", "59999", "10800000"},
		{3 * time.Hour, true, "10800", "10800000", ""},
	} {
		h := http.Header{}
		Retry(h, http.StatusTooManyRequests, tt.in, tt.final)
		if s, ms, turn := h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("X-Llmgov-Turn-Ms"); s != tt.seconds || ms != tt.ms || turn != tt.turn {
			t.Errorf("%v, final %v: %q, %q, turn %q; want %q, %q, %q", tt.in, tt.final, s, ms, turn, tt.seconds, tt.ms, tt.turn)
		}
		if got := h.Get("X-Should-Retry") == "false"; got != tt.final {
			t.Errorf("%v, final %v: x-should-retry false is %v", tt.in, tt.final, got)
		}
	}
	h := http.Header{}
	Retry(h, http.StatusPaymentRequired, 3*time.Hour, true)
	if want := (http.Header{"X-Should-Retry": {"false"}, "X-Llmgov-Turn-Ms": {"10800000"}}); !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("a 402 says %v", h)
	}
}
