package dialect

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// A reset is told in whole seconds, and never too early: who comes back then is served.
func TestResetIsNotToldTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reset := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond, time.Second, 1500 * time.Millisecond, time.Minute} {
			time.Sleep(130 * time.Millisecond)
			h := http.Header{}
			Anthropic.ShowRate(h, Tokens, governor.Quota{Limit: 10, Reset: reset}, time.Now())
			at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-Tokens-Reset"))
			if err != nil {
				t.Fatal(err)
			}
			if late := at.Sub(time.Now().Add(reset)); late < 0 || late >= time.Second {
				t.Errorf("a reset in %v is told %v late", reset, late)
			}
		}
	})
}
