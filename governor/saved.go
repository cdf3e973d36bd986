package governor

// Saved is the state of pools that no Record has. A process saves it now and then, for the next one.
type Saved struct {
	// Shares is how pools' budgets stand between their tenants.
	Shares []ShareState
	// Limits are the adaptive limits that were found, by pool.
	Limits map[string]int64
}

// Saved copies the state of all pools.
func (g *Governor) Saved() Saved {
	s := Saved{Shares: g.shareStates(), Limits: map[string]int64{}}
	for _, p := range g.table.Load().inOrder.pools {
		p.mu.Lock()
		if p.slots.Limiter != nil {
			s.Limits[p.name] = p.slots.Limit()
		}
		p.mu.Unlock()
	}
	return s
}
