package escrow

// Nodes whose calls a rule of slots keeps waiting stand aside: with the absent among their siblings, so that they
// neither head the queue nor hold virtual time back, and their floors are not due. Background calls do not, for which a rule holds together:
// see tree.open.
//
// A node that is at a bound of its own, by its soft cap or its restrictions, comes back when one of its own calls ends, or when
// its rule does not hold any more, and then stands where a newcomer would: it cannot catch up on slots that were not for it.
// There is no pass for those who have waited long, because nobody starves by such a bound: who stands aside is being
// served, by as many calls as the bound, and the slots are used by turns as ever below it.
//
// A leaf of a lower band keeps its tag, and makes up for what it has let pass.

// letReturn takes back those who stand aside and need not any more. While a call waits in line, those of lower bands may rise: see mayRise.
func (p *Pool) letReturn() {
	before := len(p.aside)
	left := p.aside[:0]
	for _, i := range p.aside {
		switch nd := &p.nodes[i]; {
		case !nd.aside: // it was removed
		case nd.waiting() > 0 && p.keepsAside(i):
			left = append(left, i)
		default:
			p.comeBack(i)
		}
	}
	p.aside = left
	if len(left) > 0 && len(left) < before {
		p.letReturn()
	}
}

// keepsAside reports whether a rule keeps the calls that wait below a node aside, and has Pump called when that may end.
func (p *Pool) keepsAside(i NodeID) bool {
	nd := &p.nodes[i]
	e := p.firstWaiting(i)
	by, at := p.keptBy(i, interactive, e)
	if at != Root {
		nd.makesUp = false
		p.wakeAt(p.liftsAt(i))
		return true
	}
	if e == nil || !by.rises() {
		return false
	}
	nd.makesUp = true
	for _, list := range nd.calls {
		if list.head >= 0 {
			p.wakeAt(p.ripensAt(by, &p.entries[list.head]))
		}
	}
	return true
}

// clearAway has the node stand aside because of which the call that heads the queue has to let others pass: the one at a bound of its own, or,
// if that does already, the one below it whose floor is due. It reports false if there is no such node.
func (p *Pool) clearAway(e *entry, floored NodeID) bool {
	at := p.asideFor(e)
	if at == Root {
		return false
	}
	if p.nodes[at].aside {
		at = floored
	}
	p.aside = append(p.aside, at)
	p.setAside(at, true)
	p.keepsAside(at)
	return true
}

// asideFor is the node that is to stand aside because a call is kept waiting; Root for none.
func (p *Pool) asideFor(e *entry) NodeID {
	by, at := p.keptBy(e.leaf, e.class, e)
	if by.rises() {
		return e.leaf
	}
	return at
}

// comeBack lets a node that stood aside stand where it would if it were new, or where it did if it makes up for that.
func (t *tree) comeBack(i NodeID) {
	if !t.nodes[i].makesUp {
		t.appear(i)
		for up := t.nodes[i].parent; up != Root && t.nodes[up].able() == 0; up = t.nodes[up].parent {
			t.appear(up)
		}
	}
	t.setAside(i, false)
}

// setAside has a node stand aside, or stand among its siblings again with the tag that it has.
func (t *tree) setAside(i NodeID, aside bool) {
	by := int32(1)
	if aside {
		by = -1
		t.countBands(i, by)
	}
	t.nodes[i].aside = aside
	if !aside {
		t.countBands(i, by)
	}
	t.countReady(i, by)
	t.restandUp(i)
}

// countReady adds the calls below node i to the ready calls of the nodes above if by is 1, and takes them away if by is -1.
func (t *tree) countReady(i NodeID, by int32) {
	nd := &t.nodes[i]
	for up := nd.parent; ; up = t.nodes[up].parent {
		for class := range nd.ready {
			t.nodes[up].ready[class] += by * nd.ready[class]
		}
		if up == Root || t.nodes[up].aside {
			return
		}
	}
}
