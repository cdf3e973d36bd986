package refusal

import (
	"fmt"
	"math"
	"time"
)

// NewStore is a store that answers, and grants nothing to a pool yet because it does not know what was used in the last minute.
type NewStore struct {
	// Lost says that it had data before. Expect is how many processes there are according to the configuration; 0 is unknown.
	Lost   bool
	Expect int
	// Until is when it grants at the latest.
	Until time.Time
}

// Explain says for people why nothing is granted to the named pool, and what to do.
func (n *NewStore) Explain(pool string) string {
	text := "The store is new: it has no data of llmgov. "
	if n.Lost {
		text = "The store has lost data. "
	}
	switch {
	case n.Expect > 0:
		text += fmt.Sprintf("Pool %s grants nothing until %d gateways (expect_nodes) have reported, or for a minute", pool, n.Expect)
	default:
		text += fmt.Sprintf("Pool %s grants nothing for a minute", pool)
	}
	text += ", because other gateways may have used its limits in the last minute."
	switch {
	case n.Expect > 0:
	case n.Lost:
		text += " With expect_nodes set to the number of gateways it takes seconds."
	default:
		text += " If this is the only gateway, set expect_nodes: 1 in the pool, or stop it and run: llmgov store new."
	}
	return text
}

// Countdown is Explain with the time that is left.
func (n *NewStore) Countdown(pool string, now time.Time) string {
	return fmt.Sprintf("%s At most %.0f s are left.", n.Explain(pool), math.Ceil(n.Until.Sub(now).Seconds()))
}
