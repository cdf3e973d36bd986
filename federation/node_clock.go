package federation

import "time"

// drift is the part of a time, one in so many, by which two clocks may differ over it.
const drift = 1000

// ceilDiv is a/b rounded up, of a b > 0.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// lower and upper are the least and the most that the store's clock may show at a time.
func (n *Node) lower(t time.Time) int64 {
	since := max(0, t.Sub(n.gotAt))
	return n.store + (since - since/drift).Milliseconds()
}

func (n *Node) upper(t time.Time) int64 {
	since := t.Sub(n.sentAt)
	return n.store + 1 + ceilDiv(int64(since+since.Abs()/drift), int64(time.Millisecond))
}

// parts are what the allowances in force have grown by beyond whole units, of so many
// parts as the Window has microseconds. They are carried on, as time that has passed: a
// node that hands out ten requests a second would lose one in twenty else. The store is
// told, and counts whole units of what they and the rate come to: were it not, it would have
// to count a unit more for each node, and eight with twenty requests a second would lose one
// in a hundred of these.
func (n *Node) parts(now time.Time) (p Amounts) {
	for k, a := range n.allowed {
		if now.Before(a.Until) {
			p[k] = a.Rate * now.Sub(a.Since).Microseconds() % n.cfg.Rules.Window.Microseconds()
		}
	}
	return p
}

// told are parts as the store reckons with them: it looks at whole milliseconds, so nothing
// is lost by it.
func told(parts Amounts) (p Amounts) {
	for k, x := range parts {
		p[k] = x / 1000
	}
	return p
}

// carried is in how long a rate comes to the parts that are carried on.
func (n *Node) carried(k int, rate int64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(n.sent.parts[k]/rate) * time.Microsecond
}
