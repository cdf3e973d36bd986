package parts

// Mark is how much came to be used within one step of the store's clock: a second if use counts for a Window.
type Mark struct{ Second, Amount int64 }

// step is how long a mark is, in milliseconds.
func (h *Hold) step() int64 { return max(1, h.window()/steps) }

// mark notes what of a hold's use is new now. What is used no more is taken off the oldest marks:
// that is exact for what leaves the Window, and for what calls give back it errs on the late side.
func (h *Hold) mark(now int64) {
	more := h.Used
	for _, m := range h.Marks {
		more -= m.Amount
	}
	marks := append([]Mark(nil), h.Marks...)
	for ; more < 0 && len(marks) > 0; marks = marks[1:] {
		if marks[0].Amount+more > 0 {
			marks[0].Amount += more
			break
		}
		more += marks[0].Amount
	}
	if second := now / h.step(); more > 0 {
		if n := len(marks); n > 0 && marks[n-1].Second == second {
			marks[n-1].Amount += more
		} else {
			marks = append(marks, Mark{second, more})
		}
	}
	h.Marks = marks
}

const (
	// heardMS is how long it takes at most until the store hears that something has left a
	// process's Window, and giveBackMS until a process has given back a part that it does not use.
	heardMS, giveBackMS = 700, 1000
	// steps are how finely marks cut a Window, and seconds are these and some more that the last ones take to be heard of.
	steps   = 60
	seconds = 66
)

// wait is in how many milliseconds the limit will have room for lack more than is free, if nobody
// else comes; 0 if that is unknown.
func (a *Account) wait(h *Hold, of []peer, lack int64) int64 {
	switch {
	case a.Lost:
		return less(a.Born+ttl+1, a.Now)
	case a.over(*h) || h.Kind == Slots:
		return 0
	case h.Kind == Period:
		return less(h.Ends, a.Now)
	}
	var leaves [seconds]int64 // by the step in which that leaves, from now on
	soon := int64(0)
	step := h.step()
	first := a.Now / step
	in := func(second int64) int64 { return min(max(second-first, 0), seconds-1) }
	for _, x := range of {
		rest := x.belief()
		for _, m := range x.Marks {
			leaves[in(m.Second+1+h.window()/step)] += m.Amount
			rest -= m.Amount
		}
		switch {
		case rest <= 0:
		case a.live(x.Hold) && x.High > x.Used:
			soon += rest
		default:
			leaves[in(x.until()/step+1)] += rest
		}
	}
	lack -= soon
	if lack <= 0 {
		return giveBackMS
	}
	for i, amount := range leaves {
		lack -= amount
		if lack <= 0 {
			return max((first+int64(i))*step-a.Now, 0) + heardMS
		}
	}
	return h.window()
}
