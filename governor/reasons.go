package governor

// Reasons tells how all limits stand that hold for a call that has just been refused. The limit
// that refused it is shown as it stood then. It changes nothing, and costs little more than the
// refusal did.
func (g *Governor) Reasons(req Request, rej *Rejection) Outlook {
	req.Input, req.Output, req.Price = bounded(req.Input), bounded(req.Output), req.Price.bounded()
	o := Outlook{Refused: rej, decided: true}
	for again := true; again; {
		v, p, a := g.table.Load().find(&req)
		if v == nil {
			return o
		}
		o = Outlook{Refused: rej, decided: true}
		again = g.explain(v, p, a, req, &o)
	}
	if rej.Reason == ReasonQueueFull || rej.Reason == ReasonOverloaded {
		return o // rej's figures are those of the queue
	}
	for i := range o.Checks {
		if c := &o.Checks[i]; c.Of(rej) {
			c.Limit = rej.Limit
			c.Used = rej.Used
			c.Asked = rej.Asked
			c.Wait = rej.RetryAfter
		}
	}
	return o
}

// Of reports whether rej is a refusal by this limit.
func (c *Check) Of(rej *Rejection) bool {
	of := ""
	pool := rej.Pool
	if rej.Own {
		of = rej.Tenant
		if !rej.InPool {
			pool = ""
		}
	}
	if c.Tenant != of || c.Pool != pool {
		return false
	}
	if rej.Budget.Limit > 0 {
		return c.Budget == rej.Budget
	}
	return c.Budget.Limit == 0 && c.Axis == rej.Axis
}
