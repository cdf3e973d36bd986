package rateheaders

import (
	"net/http"
	"testing"
	"time"
)

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
		Retry(h, tt.in, tt.final)
		if s, ms, turn := h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("X-Llmgov-Turn-Ms"); s != tt.seconds || ms != tt.ms || turn != tt.turn {
			t.Errorf("%v, final %v: %q, %q, turn %q; want %q, %q, %q", tt.in, tt.final, s, ms, turn, tt.seconds, tt.ms, tt.turn)
		}
		if got := h.Get("X-Should-Retry") == "false"; got != tt.final {
			t.Errorf("%v, final %v: x-should-retry false is %v", tt.in, tt.final, got)
		}
	}
}
