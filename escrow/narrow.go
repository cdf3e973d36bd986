package escrow

// Narrow lets only so many of Config.Slots be used, 1 to all of them: what can be used at once
// was found to be less than it may be. Calls that run beyond that run on, and none is
// dispatched until there are fewer. What a call moves tags by does not change, so
// shares stay as they are while that number moves. Of fewer slots background calls leave at
// most half of them free, or a large reserve would be all there is. Configure takes it back. Call
// Pump afterwards. It panics on a number out of range. O(1).
func (p *Pool) Narrow(slots int64) {
	if slots < min(1, p.cfg.Slots) || slots > p.cfg.Slots {
		panic("escrow: BUG: narrowed to a number of slots that is out of range")
	}
	p.slots = slots
}

// reserve is how many slots background calls leave free now.
func (p *Pool) reserve() int64 {
	if p.slots == p.cfg.Slots {
		return p.cfg.InteractiveReserve
	}
	return min(p.cfg.InteractiveReserve, p.slots/2)
}

// HasSlot reports whether one more call could run, as far as slots go.
func (p *Pool) HasSlot(ofBackground bool) bool {
	if ofBackground {
		return p.hasSlot(background)
	}
	return p.hasSlot(interactive)
}
