package governor

// retold are those of whom something may be retold, by their numbers.
type retold struct {
	limits map[int]*ownLimits
	calls  map[uint64]*SharedCall
}

// Retell tells a governor that is Recorded what another one was told at the same time. What that one never heard of is left out. Let the clock
// stand at the time of the event or, of an answer to a call, at t.Then.
func (g *Governor) Retell(t *Told) {
	switch t.Verb {
	case callNext, callLet, callRefuse, callLose:
		g.retellCall(t)
	case limitsLapse:
		g.retellLapse(t)
	default:
		g.retell(t)
	}
}

// meet takes in who has come into use.
func (g *Governor) meet() *retold {
	n := g.changes
	if n == nil { // no limits are shared, and no calls ask
		return &retold{}
	}
	if n.retold == nil {
		n.retold = &retold{limits: map[int]*ownLimits{}, calls: map[uint64]*SharedCall{}}
	}
	for _, o := range taken(n.listed) {
		n.retold.limits[o.sharing.number] = o
	}
	for _, c := range n.asking {
		n.retold.calls[c.holds.asked] = c
		for _, l := range c.limits {
			n.retold.limits[l.own.sharing.number] = l.own
		}
	}
	n.asking = nil
	return n.retold
}

func (g *Governor) retellCall(t *Told) {
	g.mu.Lock()
	defer g.unlock()
	defer g.line.reach(g.line.next()) // as in SharedCall.Next
	c := g.meet().calls[t.Call]
	if c == nil || c.state != asking {
		return
	}
	if t.Verb != callNext {
		delete(g.changes.retold.calls, t.Call)
	}
	now := g.line.at(t.Now)
	switch t.Verb {
	case callNext:
		c.next(now)
	case callLet:
		c.let(now, c.takesOf(t.Takes))
	case callRefuse:
		var lacks *Take
		if takes := c.takesOf(t.Takes); len(takes) > 0 {
			lacks = &takes[0]
		}
		c.refuse(lacks, t.Wait)
	default:
		c.lose()
	}
}

func (g *Governor) retellLapse(t *Told) {
	now := g.look()
	defer g.unlock()
	if o := g.meet().limits[t.Limits]; o != nil {
		o.advance(now)
	}
}

func (g *Governor) retell(t *Told) {
	now := g.lock()
	defer g.unlock()
	known := g.meet()
	if o := known.limits[t.Limits]; o != nil {
		o.retell(g, t)
	}
	switch t.Verb {
	case signGood:
		g.sign(now, t.Sign, g.line.at(t.Until))
	case askedOf:
		g.ask(now, t.Name)
	}
	if p := g.poolOf(t.Pool); p != nil {
		p.retellRates(g, t)
		if p.grants != nil {
			p.grants.handle.retell(t)
		}
	}
}

func (p *pool) retellRates(g *Governor, t *Told) {
	now := g.line.at(t.Now)
	switch t.Verb {
	case ratesAllow:
		grant, paths := t.Rates.grant(g.line)
		era := p.rates.era
		if t.Rates.Stale {
			era--
		}
		g.allowRates(p, t.Pair, now, &grant, paths, era)
	case ratesStop:
		g.stop(p, now)
	case ratesLearn:
		g.learns(p, g.line.at(t.Until), t.Worse)
	case ratesAlone:
		g.leaveAlone(p, t.Pair, now, t.Nodes)
	}
}

func (o *ownLimits) retell(g *Governor, t *Told) {
	now := g.line.at(t.Now)
	until := g.line.at(t.Until)
	switch t.Verb {
	case limitsAllow:
		o.sharing.handle.allow(g.line.now, now, until, t.Parts)
	case limitsKeep:
		o.keep(until, t.Sign)
	case limitsAlone:
		o.leaveAlone(now, t.Worse)
	case limitsRest:
		o.advance(now)
		o.rest()
	case limitsGiveUp:
		o.advance(now)
		o.giveBack(now)
	case limitsRecall:
		o.recall(now)
	}
}

func (s *SharedSlots) retell(t *Told) {
	now := s.g.line.at(t.Now)
	switch t.Verb {
	case slotsAllow:
		s.allow(now, s.g.line.at(t.Until), t.Slots, append(t.Parts, s.p.grantsOf(now, t.Shares)...))
	case slotsClaim:
		if t.Name != "" {
			s.p.slots.Limiter.Name(t.Name)
		}
		s.claim(now)
	case slotsAlone:
		s.leaveAlone(now)
	case slotsRest:
		s.rest()
	case slotsRecall:
		s.recall(now)
	}
}
