package escrow

// Narrow lets only so many of Config.Slots be used, and background calls only begin while
// fewer than open run: what can be used at once was found to be less than it may be, or others
// have the rest. Calls that run beyond that run on, and none is dispatched until there are
// fewer. The virtual cost of a call does not change, so shares stay as they are while these
// numbers move. Configure takes it back. It changes nothing in a pool without Slots. Call Pump
// afterwards. It panics on numbers out of range. O(1).
func (p *Pool) Narrow(slots, open int64) {
	if slots < 0 || slots > p.cfg.Slots || open > slots {
		panic("escrow: BUG: narrowed to a number of slots that is out of range")
	}
	p.slots = slots
	p.open = open
	p.soon = slots
}

// Expect says how many slots can soon be used, if the pool was narrowed to fewer only for the moment.
// Predictions go by that until Narrow or Configure.
func (p *Pool) Expect(slots int64) { p.soon = max(p.slots, slots) }

// HasSlot reports whether one more call could run, as far as slots go.
func (p *Pool) HasSlot(ofBackground bool) bool {
	if ofBackground {
		return p.hasSlot(background)
	}
	return p.hasSlot(interactive)
}
