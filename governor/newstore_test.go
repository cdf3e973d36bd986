package governor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNewStore: a refusal says of a store that grants nothing yet why that is, and what to do, while it is so.
func TestNewStore(t *testing.T) {
	for _, c := range []struct {
		expect int
		forgot bool
		want   string
	}{
		{want: "The store is new: it has no data of llmgov. Pool p grants nothing for a minute, because other gateways may have used its limits in the last minute. " +
			"If this is the only gateway, set expect_nodes: 1 in the pool, or stop it and run: llmgov store new."},
		{expect: 2, want: "The store is new: it has no data of llmgov. Pool p grants nothing until 2 gateways (expect_nodes) have reported, or for a minute, " +
			"because other gateways may have used its limits in the last minute."},
		{forgot: true, want: "The store has lost data. Pool p grants nothing for a minute, because other gateways may have used its limits in the last minute. " +
			"With expect_nodes set to the number of gateways it takes seconds."},
		{expect: 2, forgot: true, want: "The store has lost data. Pool p grants nothing until 2 gateways (expect_nodes) have reported, or for a minute, " +
			"because other gateways may have used its limits in the last minute."},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := sharedConfig()
			cfg.Pools[0].ExpectNodes = c.expect
			g, s := shared(t, cfg)
			s.Learns(time.Now().Add(45*time.Second), c.forgot)
			_, rej := Rejected(g.Acquire(t.Context(), Request{Tenant: "x", Pool: "p", Input: 700}))
			if rej == nil || !strings.HasPrefix(rej.Error(), c.want+" Please try again in ") {
				t.Errorf("the refusal says %v, want %s", rej, c.want)
			}
			if got := g.NewStore("p").Countdown("p", time.Now().Add(500*time.Millisecond)); got != c.want+" At most 45 s are left." {
				t.Errorf("the countdown says %s", got)
			}
			time.Sleep(GrantLasts)
			if g.NewStore("p") != nil || g.NewStore("none") != nil {
				t.Error("a store that does not answer is taken for a new one")
			}
		})
	}
}
