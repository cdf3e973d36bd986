package escrow

// A node that is at a bound of its own, by its soft cap or its restrictions, stands aside: with the absent among its siblings, so that it
// neither heads the queue nor holds virtual time back, and its floor is not due. It comes back when one of its own calls ends, or when
// its rule does not hold any more, and then stands where a newcomer would: it cannot catch up on slots that were not for it.
//
// There is no pass for those who have waited long, because nobody starves by such a bound: who stands aside is being
// served, by as many calls as the bound, and the slots are used by turns as ever below it.

// letReturn takes back those who stand aside and need not any more. They are no more than there are slots: each ran a call when it
// stepped aside.
func (p *Pool) letReturn() {
	left := p.aside[:0]
	for _, i := range p.aside {
		nd := &p.nodes[i]
		if !nd.aside { // it was removed
			continue
		}
		if _, at := p.keptBy(i, interactive, p.firstWaiting(i)); nd.waiting() > 0 && at != Root {
			left = append(left, i)
			p.wakeAt(p.liftsAt(i))
		} else {
			p.comeBack(i)
		}
	}
	p.aside = left
}

// clearAway has the node stand aside that heads the queue and is at a bound of its own, or, if that does already, the one below it whose
// floor is due. It reports false if there is no such node.
func (p *Pool) clearAway(at, floored NodeID) bool {
	if at == Root {
		return false
	}
	if p.nodes[at].aside {
		at = floored
	}
	p.stepAside(at)
	return true
}

// stepAside has a node stand aside until letReturn finds that it need not any more.
func (p *Pool) stepAside(i NodeID) {
	p.wakeAt(p.liftsAt(i))
	p.aside = append(p.aside, i)
	p.setAside(i, true)
}

// comeBack lets a node that stood aside stand where it would if it were new.
func (t *tree) comeBack(i NodeID) {
	t.appear(i)
	for up := t.nodes[i].parent; up != Root && t.nodes[up].able() == 0; up = t.nodes[up].parent {
		t.appear(up)
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

// countReady adds (by = 1) or takes away (by = -1) the calls below node i to those that are ready above it.
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
