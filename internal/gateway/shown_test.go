package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Calls that wait for an upstream that has answered none for 10 s are shown until it answers or they go.
func TestConditions_SilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuickSite(t, "pools: {p: {models: [m], rpm: 6000}}", "  a: {keys: [KEY(a)]}")
		s.takes = 12 * time.Second
		shown := func() string {
			text := ""
			for _, c := range s.gateway.Conditions(time.Now()) {
				text += fmt.Sprintf("%s %s/%s: %s", c.Kind, c.Pool, c.Upstream, c.Message)
			}
			return text
		}
		for range 3 {
			s.calls.Go(func() { s.call("a", `{"model":"m","messages":[]}`) })
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{9 * time.Second, ""},
			{2 * time.Second, "upstream_silent p/u: Upstream u of pool p: no answer for 11 s, 3 calls wait for it."},
			{2 * time.Second, ""},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := shown(); got != step.want {
				t.Errorf("%q, want %q", got, step.want)
			}
		}
		s.calls.Wait()
	})
}
