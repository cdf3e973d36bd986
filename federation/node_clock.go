package federation

import "time"

// Two clocks may differ by 1/drift of any stretch of time.
const drift = 1000

// storeClock is a node's knowledge of the store's clock: it showed store between sentAt and gotAt.
type storeClock struct {
	store         int64
	sentAt, gotAt time.Time
}

// lower and upper are the least and the most that the store's clock may show at a time.
func (c *storeClock) lower(t time.Time) int64 {
	since := max(0, t.Sub(c.gotAt))
	return c.store + (since - since/drift).Milliseconds()
}

func (c *storeClock) upper(t time.Time) int64 {
	since := t.Sub(c.sentAt)
	return c.store + 1 + ceilDiv(int64(since+since.Abs()/drift), int64(time.Millisecond))
}

// parts are the fractions of a unit to which the allowances in force have grown, of as many parts a
// unit as the Window has microseconds. They are carried on as time that has passed: otherwise a
// node that hands out ten requests a second would lose one in twenty. The store is told of them,
// and counts the whole units to which they and the rate come. Else it would have to count a unit
// more for each node, and eight nodes with twenty requests a second would lose one in a hundred.
func (n *Node) parts(now time.Time) (p Amounts) {
	for k, a := range n.allowed {
		if now.Before(a.Until) {
			p[k] = a.Rate * now.Sub(a.Since).Microseconds() % n.cfg.Rules.Window.Microseconds()
		}
	}
	return p
}

// told is parts as the store computes with them: it looks at whole milliseconds, so nothing is
// lost.
func told(parts Amounts) (p Amounts) {
	for k, x := range parts {
		p[k] = x / 1000
	}
	return p
}

// carried is how long a rate takes to come to the parts that are carried on.
func (n *Node) carried(k int, rate int64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(n.sent.parts[k]/rate) * time.Microsecond
}
