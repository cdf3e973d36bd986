package governor

import (
	"testing"
	"testing/synctest"
)

// A floor is a part of the pool's tokens a minute, as the pool counts them: what
// another has in the cache does not stretch that one's floor over theirs.
//
// Catches: floors paid by what counts in shares.
func TestCachedInputStretchesNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{1000, 1000, 1000, 1000, 1000})
		cfg.Tenants[0].Floor = 150_000
		cfg.Tenants[1].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		// tokens a minute
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 150_000*97/100 {
			t.Errorf("beside a tenant whose prompts are cached, one with a floor of 150000 gets %d", b)
		}
	})
}

// The same where only the tenant with the cache has a floor, below its share of the
// limit: the other is not starved.
func TestCachedFloorBelowTheShareStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{1000, 1000, 1000, 1000, 1000})
		cfg.Tenants[0].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 600_000*2/13*9/10 {
			t.Errorf("who has no floor gets %d a minute, want two calls for eleven", b)
		}
	})
}
