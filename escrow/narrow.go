package escrow

// Narrow lets only so many of Config.Slots be used, and of those so many by background calls: what
// can be used at once was found to be less than it may be, or others have the rest. Calls that run
// beyond that run on, and none is dispatched until there are fewer. The virtual cost of a call does
// not change, so shares stay as they are while these numbers move. Configure takes it back. It
// changes nothing in a pool without Slots. Call Pump afterwards. It panics on numbers out of range.
// O(1).
func (p *Pool) Narrow(slots int64, of BackgroundSlots) {
	if slots < 0 || slots > p.cfg.Slots || of.Most > slots || of.Free < 0 {
		panic("escrow: BUG: narrowed to a number of slots that is out of range")
	}
	p.slots = slots
	p.soon = slots
	p.forBackground = of
	p.softCaps = nil
	p.room = RoomOf(slots, p.cfg.HoldBack)
}

// Expect says how many slots can soon be used, if the pool was narrowed to fewer only for the moment.
// Predictions go by that until Narrow or Configure.
func (p *Pool) Expect(slots int64) { p.soon = max(p.slots, slots) }

// HasSlot reports whether one more call of a leaf could run, as far as slots go.
func (p *Pool) HasSlot(leaf NodeID, ofBackground bool) bool {
	class := interactive
	if ofBackground {
		class = background
	}
	return p.hasSlot(leaf, class) && !p.HeldBack(leaf)
}
