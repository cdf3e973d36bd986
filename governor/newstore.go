package governor

import "time"

// newStore is the store if it grants nothing to the pool yet; else nil.
func (p *pool) newStore(now time.Time) *NewStore {
	if !p.learns(now) || !p.cutOff(now) {
		return nil
	}
	return &NewStore{Lost: p.rates.forgot, Expect: p.rules.ExpectNodes, Until: p.rates.learning}
}

// NewStore is the store if it grants nothing to a pool yet; else nil.
func (g *Governor) NewStore(pool string) *NewStore {
	now := g.look()
	defer g.unlock()
	p := g.poolOf(pool)
	if p == nil {
		return nil
	}
	return p.newStore(now)
}
